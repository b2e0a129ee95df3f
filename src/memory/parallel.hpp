#pragma once

#include <cstddef>
#include <functional>

namespace isthmus::memory {

/// Returns the number of threads for large host work, which is the number of processors this process may run on.
unsigned host_threads() noexcept;

/// Calls `body(first, last)` on parts that cover [0, count) exactly, in parallel if there are at least two parts of
/// `grain`. Starts new threads for each call, so that they inherit the caller's NUMA policy. Rethrows the first
/// exception.
void parallel_for(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& body);

/// Fills host memory with one byte, in parallel.
void fill_host(std::byte* begin, std::size_t bytes, std::byte value);

}  // namespace isthmus::memory
