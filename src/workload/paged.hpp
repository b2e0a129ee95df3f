#pragma once

// Buffers whose pages the kernels copy themselves, in the placement `paged` (docs/placements.md).

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "device/kernel/launch.hpp"
#include "paging/placement.hpp"
#include "workload/axis.hpp"

namespace isthmus::workload {

/// Axes of every workload that supports the placement; a case has settings for them only if its placement is `paged`.
inline constexpr const char* kPageAxis = "page";
inline constexpr const char* kFramesAxis = "frames";
inline constexpr const char* kEvictionAxis = "eviction";
inline constexpr const char* kTransportAxis = "transport";
inline constexpr const char* kQueuesAxis = "queues";
Axis eviction_axis();
Axis transport_axis();
Axis queues_axis();
/// Returns an axis whose choices are the names in a table.
template <class Value, std::size_t rows>
Axis named_axis(const char* name, const char* help, const paging::Named<Value> (&table)[rows]) {
  std::vector<AxisValue> values;
  for (const auto& row : table) values.emplace_back(std::string(row.name));
  return choice_axis(name, help, std::move(values));
}
std::vector<Axis> paging_axes();

/// Returns the shape with a one-dimensional grid, limited to the number of blocks whose warps can all pin one page of
/// each region at the same time. With more blocks, all frames could be pinned while another is requested (deadlock).
/// Throws Skip if not even one block fits.
device::LaunchShape within_frames(device::LaunchShape shape, const device::DeviceInfo& info,
                                  std::initializer_list<paging::Region> regions);

/// Returns a shape with blocks of `threads` threads and one warp per page of `region`. within_frames() may reduce the
/// number of blocks, so each warp must loop over pages.
device::LaunchShape warp_a_page(const paging::Region& region, unsigned threads, const device::DeviceInfo& info,
                                std::initializer_list<paging::Region> regions);

}  // namespace isthmus::workload
