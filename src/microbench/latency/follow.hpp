#pragma once

// The loads that are timed: one waits for the last, and nothing else is done between them.

#include <cstddef>
#include <cstdint>

#include "device/api/device.hpp"

namespace isthmus::microbench::latency {

/// The address after `hops` hops, on the calling thread.
std::uint64_t follow(std::uint64_t from, std::size_t hops);

/// Queues a kernel of one thread that goes `hops` hops on from `*at` and leaves there where it ended.
void queue_follow(device::Stream& stream, std::uint64_t* at, std::size_t hops);
/// Queues a kernel that reads a word of every `page` bytes, so that no page is elsewhere or unmapped afterwards; `sum`
/// holds one word.
void queue_visit(device::Stream& stream, const std::byte* begin, std::size_t bytes, std::size_t page,
                 std::uint64_t* sum);

}  // namespace isthmus::microbench::latency
