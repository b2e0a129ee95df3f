#pragma once

// Operations on a GPU.

#include <cstdint>

#include "device/kernel/kernel.hpp"
#include "microbench/launch_shape.hpp"
#include "microbench/stream/operation.hpp"

namespace isthmus::microbench::stream {

/// Elements per access of a thread.
inline constexpr std::size_t kPerAccess = 2;

/// Returns the launch of the operation on the selected device, for the record and for the number of partial sums.
DescribedLaunch describe(Operation operation, std::size_t count, const BlockRequest& blocks,
                         const device::DeviceInfo& device);

/// Queues the operation on all elements, whose number is a multiple of kPerAccess. Operation::read writes one sum per
/// block to `sums`.
void queue(device::Stream& stream, Operation operation, const Arrays& arrays, double* sums, const BlockRequest& blocks,
           const device::DeviceInfo& device);

/// Queues a kernel that writes input array `array`.
void queue_input(device::Stream& stream, double* to, std::size_t count, std::uint64_t seed, std::uint64_t array,
                 const device::DeviceInfo& device);
/// Queues a kernel that writes a value that no result has (NaN).
void queue_poison(device::Stream& stream, double* to, std::size_t count, const device::DeviceInfo& device);

}  // namespace isthmus::microbench::stream
