#pragma once

// What the seven workloads share on the host side: compiled choices picked at run time, launch geometry, axes, presets.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/staging.hpp"
#include "harness/workload.hpp"

namespace isthmus::microbench {

using device::TileStaging;
using harness::AxisValue;
using harness::Case;
using harness::Staging;

template <auto value>
using Constant = std::integral_constant<decltype(value), value>;

/// A list of numbers that kernels are compiled for; the axis takes its allowed values from here.
template <auto... values>
struct Choices {
  static std::vector<AxisValue> allowed() { return {AxisValue{std::int64_t{values}}...}; }
  /// Calls use(Constant<v>) for the v that equals `value`.
  template <class Use>
  static void with(std::int64_t value, Use&& use) {
    ((value == std::int64_t{values} ? use(Constant<values>{}) : void()), ...);
  }
};

/// A list of tile shapes, each a type with a `name`.
template <class... Tiles>
struct TileChoices {
  static std::vector<AxisValue> allowed() { return {AxisValue{std::string(Tiles::name)}...}; }
  template <class Use>
  static void with(std::string_view name, Use&& use) {
    ((name == Tiles::name ? use(Tiles{}) : void()), ...);
  }
};

using Depths = Choices<2u, 3u, 4u>;

/// The staging that this device can run; what runs instead of what was asked is written into the record.
Staging available_staging(Case& c);

/// Calls use(Constant<staging>, Constant<depth>) for a staging that is not `none`.
template <class Use>
void with_pipeline(Staging staging, std::int64_t depth, Use&& use) {
  if (staging == Staging::direct) {
    use(Constant<TileStaging::direct>{}, Constant<1u>{});
  } else {
    Depths::with(depth, [&](auto stages) {
      if (staging == Staging::async) {
        use(Constant<TileStaging::async>{}, stages);
      } else {
        use(Constant<TileStaging::bulk>{}, stages);
      }
    });
  }
}

/// Tile buffers that a staging keeps: depth, or one for `direct`.
inline std::size_t tile_buffers(Staging staging, std::int64_t depth) {
  return staging == Staging::direct ? 1 : static_cast<std::size_t>(depth);
}

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// Dynamic shared memory of a block: what the tiles need, or the axis' value where that is more.
std::size_t shared_bytes_for(Case& c, std::size_t needed);

/// Blocks for `pieces` of work: the axis, or by itself as many as there are pieces, at most `waves` times what the
/// device holds at once (0: no limit).
unsigned automatic_blocks(Case& c, const device::KernelInfo& info, std::uint64_t pieces, unsigned waves);

/// Completes the launch shape and tells the harness about the kernel.
template <class... P>
device::LaunchShape prepare(Case& c, device::Kernel<P...> kernel, unsigned threads, std::size_t shared_bytes,
                            std::uint64_t pieces, unsigned waves) {
  device::LaunchShape shape{
      .grid = 1, .block = threads, .shared_bytes = shared_bytes, .carveout = static_cast<int>(c.integer("carveout"))};
  const auto info = device::kernel_info(kernel, shape);
  shape.grid = automatic_blocks(c, info, pieces, waves);
  c.kernel(info);
  return shape;
}

/// Blocks of a chunk (`streamed`): no more than there are pieces in it.
inline device::LaunchShape shape_for_chunk(device::LaunchShape shape, std::uint64_t pieces) {
  shape.grid.x = static_cast<unsigned>(std::min<std::uint64_t>(shape.grid.x, std::max<std::uint64_t>(pieces, 1)));
  return shape;
}

// What all seven have: every placement, and the axes threads, blocks, depth, shared_bytes, carveout.
void add_geometry_axes(harness::Workload& workload, std::vector<AxisValue> allowed_threads);
/// paper-fig4, super and mega: the paper's geometry with `settings` of the workload added.
void add_paper_preset(harness::Workload& workload, harness::AxisSettings settings);

/// tile, iterations and reuse of the vector workloads.
void add_vector_axes(harness::Workload& workload, std::vector<AxisValue> tiles);
/// Table 3's one-dimensional sizes; `mega_gi` is Table 2's largest, in 2^30 elements.
void add_vector_sizes(harness::Workload& workload, std::int64_t mega_gi);
/// Table 3's square sizes for the given extents; super and mega in 1024.
void add_matrix_sizes(harness::Workload& workload, const std::vector<std::string>& extents, std::int64_t super_ki,
                      std::int64_t mega_ki);
/// Elements of a vector tile: the axis, or what makes `buffers` of them fill `shared_bytes` where that is given.
std::size_t tile_elements(Case& c, std::size_t buffers, const std::vector<AxisValue>& allowed);

std::vector<AxisValue> numbers(std::initializer_list<std::int64_t> values);

inline harness::Axis extent_axis(std::string name, std::string help, std::int64_t value) {
  return {.name = std::move(name), .help = std::move(help), .default_value = value, .allowed = {}, .minimum = 1};
}

}  // namespace isthmus::microbench
