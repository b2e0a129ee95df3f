#pragma once

// Planted bugs: allocators that return wrong memory. Included before everything else in the sources of
// test_alloc_mutants.

#include <sys/mman.h>

#include <cstddef>

#include "device/api/device.hpp"

namespace isthmus::broken {

/// Returns a block that begins at the last byte of the previous block.
inline void* overlapping(std::size_t bytes) {
  static auto* arena = static_cast<std::byte*>(
      ::mmap(nullptr, std::size_t{64} << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  static std::size_t next = 0;
  if (next + bytes > std::size_t{64} << 20) next = 0;
  std::byte* given = arena + next;
  next += bytes - 1;
  return given;
}

inline void kept(void*, std::size_t) {}

}  // namespace isthmus::broken

#define mmap(address, bytes, ...) isthmus::broken::overlapping(bytes)
#define munmap(pointer, bytes) isthmus::broken::kept(pointer, bytes)
// Calls for managed memory use pinned memory.
#define malloc_managed(bytes) malloc_pinned(bytes)
#define free_managed(pointer) free_pinned(pointer)
