#pragma once

#include <cstddef>

namespace isthmus::memory {

/// Writes host memory back and drops it from the caches of every core, in parallel: a copy that follows reads memory,
/// whoever wrote it last. False, and nothing done, where a program may not do that on this CPU.
bool flush_host_caches(const std::byte* begin, std::size_t bytes);

/// Bytes of a line of the first-level data cache, 64 where unknown.
std::size_t host_line_bytes();

}  // namespace isthmus::memory
