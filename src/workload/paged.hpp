#pragma once

// Buffers whose pages the kernels fetch by themselves, where the placement is `paged` (docs/placements.md).

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "device/kernel/launch.hpp"
#include "paging/placement.hpp"
#include "workload/axis.hpp"

namespace isthmus::workload {

/// Axes of every workload that has the placement; in a case's settings only where its placement is that.
inline constexpr const char* kPageAxis = "page";
inline constexpr const char* kFramesAxis = "frames";
inline constexpr const char* kEvictionAxis = "eviction";
inline constexpr const char* kTransportAxis = "transport";
inline constexpr const char* kQueuesAxis = "queues";
Axis eviction_axis();
Axis transport_axis();
Axis queues_axis();
/// A choice among the rows of a table of names.
template <class Value, std::size_t rows>
Axis named_axis(const char* name, const char* help, const paging::Named<Value> (&table)[rows]) {
  std::vector<AxisValue> values;
  for (const auto& row : table) values.emplace_back(std::string(row.name));
  return choice_axis(name, help, std::move(values));
}
std::vector<Axis> paging_axes();

/// The shape with as many blocks, in a row, as may hold a page of each region with each of their warps at once. With
/// more, all frames could be held and one more be wanted for ever. Throws Skip where that is less than one block.
device::LaunchShape within_frames(device::LaunchShape shape, const device::DeviceInfo& info,
                                  std::initializer_list<paging::Region> regions);

/// The same for kernels of which each warp takes pages of `region` in turn, with blocks of so many threads.
device::LaunchShape warp_a_page(const paging::Region& region, unsigned threads, const device::DeviceInfo& info,
                                std::initializer_list<paging::Region> regions);

}  // namespace isthmus::workload
