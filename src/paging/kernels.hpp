#pragma once

// Kernels that the pager itself runs.

#include <cstdint>

#include "device/api/device.hpp"
#include "device/kernel/kernel.hpp"
#include "paging/table.hpp"

namespace isthmus::paging {

/// Queues a kernel whose warps divide the pages [first, last) among themselves and fetch them.
void queue_prefetch(device::Stream& stream, const device::LaunchShape& shape, const Region& region, std::uint64_t first,
                    std::uint64_t last);
void queue_flush(device::Stream& stream, const device::LaunchShape& shape, const Table* table);
/// Queues the relay kernel, with one warp per slot, on the relaying device. It runs until the host sets its word
/// `host_ended` to a value other than 0, or no page has been requested for `patience` seconds. `ended` is in the memory
/// of the relaying device and must be 0 initially.
void queue_relay(device::Stream& stream, const device::LaunchShape& shape, const Channel& channel,
                 const std::uint32_t* host_ended, std::uint32_t* ended, double patience);
/// Returns how many blocks of the relay kernel, with `threads` threads each, can be resident on the selected device.
/// Loads the kernel.
std::size_t relay_blocks(unsigned threads);

}  // namespace isthmus::paging
