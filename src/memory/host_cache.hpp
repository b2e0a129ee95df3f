#pragma once

#include <cstddef>

namespace isthmus::memory {

/// Writes host memory back and drops it from the caches of every core, in parallel, so that a later copy reads memory
/// no matter which core wrote it last. Does nothing and returns false if a program may not flush caches on this CPU.
bool flush_host_caches(const std::byte* begin, std::size_t bytes);

/// Returns the line size of the first-level data cache in bytes; 64 if unknown.
std::size_t host_line_bytes();

}  // namespace isthmus::memory
