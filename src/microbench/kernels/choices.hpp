#pragma once

// Host code shared by the seven workloads: stagings selected at run time, launch geometry, axes, presets.

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

/// Returns a staging that this device can run. If it differs from the requested one, the record notes the replacement.
Staging available_staging(Case& c);

/// Calls use(Constant<staging>, Constant<depth>) for a staging other than `none`.
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

/// Returns the dynamic shared memory of a block in bytes: `needed` for the tiles, or the value of axis shared_bytes if
/// that is larger.
std::size_t shared_bytes_for(Case& c, std::size_t needed);

/// Returns the number of blocks for `pieces` work items: the value of axis blocks, or by default one per work item, but
/// at most `waves` times as many as the device runs at once (no limit if `waves` is 0).
unsigned automatic_blocks(Case& c, const device::KernelInfo& info, std::uint64_t pieces, unsigned waves);

/// Returns the launch shape of a kernel that processes `pieces` work items.
template <class... P>
device::LaunchShape prepare(Case& c, device::Kernel<P...> kernel, unsigned threads, std::size_t shared_bytes,
                            std::uint64_t pieces, unsigned waves) {
  device::LaunchShape shape{
      .grid = 1, .block = threads, .shared_bytes = shared_bytes, .carveout = static_cast<int>(c.integer("carveout"))};
  const auto info = device::kernel_info(kernel, shape);
  shape.grid = automatic_blocks(c, info, pieces, waves);
  return shape;
}

/// Returns the launch shape for a chunk (`streamed`), with no more blocks than the chunk has work items.
inline device::LaunchShape shape_for_chunk(device::LaunchShape shape, std::uint64_t pieces) {
  shape.grid.x = static_cast<unsigned>(std::min<std::uint64_t>(shape.grid.x, std::max<std::uint64_t>(pieces, 1)));
  return shape;
}

/// Creates a workload with the settings that all seven share. `table_name` is the paper's name in Table 2, in brackets,
/// if it differs.
workload::Workload micro_workload(const std::string& name, std::function<void(Case&)> function, std::string summary,
                                  const std::string& table_name = "");
/// Adds all placements, and the axes threads, blocks, depth, shared_bytes and carveout, which all seven have.
void add_geometry_axes(workload::Workload& workload, std::vector<AxisValue> allowed_threads);
/// Adds the preset paper-fig4, of sizes super and mega: the paper's geometry with the workload's `settings`.
void add_paper_preset(workload::Workload& workload, workload::AxisSettings settings);

/// Adds the axes tile, iterations and reuse of the vector workloads.
void add_vector_axes(workload::Workload& workload, std::vector<AxisValue> tiles);
/// Adds Table 3's one-dimensional sizes. `mega_gi` is the largest size in Table 2, in 2^30 elements.
void add_vector_sizes(workload::Workload& workload, std::int64_t mega_gi);
/// Adds Table 3's square sizes for the given extents. `super_ki` and `mega_ki` are in units of 1024.
void add_matrix_sizes(workload::Workload& workload, const std::vector<std::string>& extents, std::int64_t super_ki,
                      std::int64_t mega_ki);
/// Returns the number of elements of a vector tile: the value of axis tile, or, if axis shared_bytes is set, the
/// largest allowed number for which `buffers` tiles fit into that many bytes.
std::size_t tile_elements(Case& c, std::size_t buffers, const std::vector<AxisValue>& allowed);

}  // namespace isthmus::microbench
