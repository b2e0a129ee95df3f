#pragma once

// Calls of the host that give pageable memory, beside malloc.

#include <cstddef>
#include <span>
#include <string_view>

namespace isthmus::microbench::alloc {

struct HostCall {
  std::string_view name, words;
  /// Throws device::Error where there is no memory. `numa_node`: of libnuma's.
  void* (*allocate)(std::size_t bytes, int numa_node);
  void (*release)(void* pointer, std::size_t bytes);
};

std::span<const HostCall> host_calls() noexcept;

}  // namespace isthmus::microbench::alloc
