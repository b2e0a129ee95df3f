#pragma once

// Contiguous device memory that is allocated with the virtual memory management calls.

#include <cstddef>

namespace isthmus::device {

/// Returns `bytes` rounded up to the selected device's memory_granularity().
std::size_t mapped_bytes(std::size_t bytes);
/// Reserves addresses, creates memory on the selected device, maps it and sets access, for `bytes` bytes rounded up to
/// the granularity. On failure, releases everything and throws Error.
void* malloc_mapped(std::size_t bytes);
/// Frees memory from malloc_mapped; `bytes` must be the size passed there. Queued work must no longer use the memory,
/// because this call does not wait.
void free_mapped(void* pointer, std::size_t bytes);

}  // namespace isthmus::device
