#pragma once

// What the seven workloads share on the host side: stagings picked at run time, launch geometry, axes, presets.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/kernel/staging.hpp"
#include "workload/choices.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

using device::TileStaging;
using workload::AxisValue, workload::Case, workload::Control, workload::Run, workload::Staging;
using workload::Choices, workload::Constant, workload::TileChoices;

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

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// Dynamic shared memory of a block: what the tiles need, or the axis' value where that is more.
std::size_t shared_bytes_for(Case& c, std::size_t needed);

/// Blocks for `pieces` of work: the axis, or by itself as many as there are pieces, at most `waves` times what the
/// device holds at once (0: no limit).
unsigned automatic_blocks(Case& c, const device::KernelInfo& info, std::uint64_t pieces, unsigned waves);

/// The launch shape.
template <class... P>
device::LaunchShape prepare(Case& c, device::Kernel<P...> kernel, unsigned threads, std::size_t shared_bytes,
                            std::uint64_t pieces, unsigned waves) {
  device::LaunchShape shape{
      .grid = 1, .block = threads, .shared_bytes = shared_bytes, .carveout = static_cast<int>(c.integer("carveout"))};
  const auto info = device::kernel_info(kernel, shape);
  shape.grid = automatic_blocks(c, info, pieces, waves);
  return shape;
}

/// Blocks of a chunk (`streamed`): no more than there are pieces in it.
inline device::LaunchShape shape_for_chunk(device::LaunchShape shape, std::uint64_t pieces) {
  shape.grid.x = static_cast<unsigned>(std::min<std::uint64_t>(shape.grid.x, std::max<std::uint64_t>(pieces, 1)));
  return shape;
}

/// A registration; `table_name` is what the paper's Table 2 calls it, in brackets, where it has another name there.
workload::Workload micro_workload(const std::string& name, std::function<void(Case&)> function, std::string summary,
                                  const std::string& table_name = "");
// What all seven have: every placement, and the axes threads, blocks, depth, shared_bytes, carveout.
void add_geometry_axes(workload::Workload& workload, std::vector<AxisValue> allowed_threads);
/// paper-fig4, super and mega: the paper's geometry with `settings` of the workload added.
void add_paper_preset(workload::Workload& workload, workload::AxisSettings settings);

/// tile, iterations and reuse of the vector workloads.
void add_vector_axes(workload::Workload& workload, std::vector<AxisValue> tiles);
/// Table 3's one-dimensional sizes; `mega_gi` is Table 2's largest, in 2^30 elements.
void add_vector_sizes(workload::Workload& workload, std::int64_t mega_gi);
/// Table 3's square sizes for the given extents; super and mega in 1024.
void add_matrix_sizes(workload::Workload& workload, const std::vector<std::string>& extents, std::int64_t super_ki,
                      std::int64_t mega_ki);
/// Elements of a vector tile: the axis, or what makes `buffers` of them fill `shared_bytes` where that is given.
std::size_t tile_elements(Case& c, std::size_t buffers, const std::vector<AxisValue>& allowed);

}  // namespace isthmus::microbench
