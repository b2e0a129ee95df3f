#pragma once

// Device memory of one piece by the calls that keep addresses and memory apart.

#include <cstddef>

namespace isthmus::device {

/// `bytes` in whole units of the selected device's memory_granularity().
std::size_t mapped_bytes(std::size_t bytes);
/// Addresses reserved, memory created, mapped and given access: `bytes` of the selected device, in whole units. Throws
/// Error, and then holds nothing.
void* malloc_mapped(std::size_t bytes);
/// `bytes` as malloc_mapped was asked for. Nothing queued may use it any more: this waits for nothing.
void free_mapped(void* pointer, std::size_t bytes);

}  // namespace isthmus::device
