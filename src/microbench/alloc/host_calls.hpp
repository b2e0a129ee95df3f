#pragma once

// Host calls other than malloc that allocate pageable memory.

#include <cstddef>
#include <span>
#include <string_view>

namespace isthmus::microbench::alloc {

struct HostCall {
  std::string_view name, words;
  /// Call that allocates, and throws device::Error if there is no memory. Only libnuma's call uses `numa_node`.
  void* (*allocate)(std::size_t bytes, int numa_node);
  void (*release)(void* pointer, std::size_t bytes);
};

std::span<const HostCall> host_calls() noexcept;

}  // namespace isthmus::microbench::alloc
