#pragma once

// What the pager does on the device by itself.

#include <cstdint>

#include "device/api/device.hpp"
#include "device/kernel/kernel.hpp"
#include "paging/table.hpp"

namespace isthmus::paging {

/// Each warp takes pages `first` to `last` in turn.
void queue_prefetch(device::Stream& stream, const device::LaunchShape& shape, const Region& region, std::uint64_t first,
                    std::uint64_t last);
void queue_flush(device::Stream& stream, const device::LaunchShape& shape, const Table* table);
/// A warp a slot, on the device that relays: until the host's word `host_ended` is not 0, or nothing was asked for so
/// many seconds. `ended` is 0, in that device's memory.
void queue_relay(device::Stream& stream, const device::LaunchShape& shape, const Channel& channel,
                 const std::uint32_t* host_ended, std::uint32_t* ended, double patience);
/// Blocks of so many threads that the selected device holds at once. Loads the kernel.
std::size_t relay_blocks(unsigned threads);

}  // namespace isthmus::paging
