#pragma once

// Loads that are timed. Each load waits for the previous one, and nothing else runs between them.

#include <cstddef>
#include <cstdint>

#include "device/api/device.hpp"

namespace isthmus::microbench::latency {

/// Follows a chain from address `from` on the calling thread, and returns the address after `hops` hops.
std::uint64_t follow(std::uint64_t from, std::size_t hops);

/// Queues a kernel of one thread that goes `hops` hops from `*at` and writes the last address back to `*at`.
void queue_follow(device::Stream& stream, std::uint64_t* at, std::size_t hops);
/// Queues a kernel that reads one word of every `page` bytes, so that afterwards all pages are mapped for the reader.
/// `sum` has room for one word.
void queue_visit(device::Stream& stream, const std::byte* begin, std::size_t bytes, std::size_t page,
                 std::uint64_t* sum);

}  // namespace isthmus::microbench::latency
