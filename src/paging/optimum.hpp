#pragma once

// Lower bound of any eviction policy, for comparison with counted fetches.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isthmus::paging {

/// Returns the minimum number of fetches if pages are needed in the order `wanted` and `frames` pages (at least one)
/// fit at the same time: the resident page whose next use is latest is evicted (Belady, IBM Systems Journal 1966).
std::uint64_t optimal_fetches(std::span<const std::uint32_t> wanted, std::size_t frames);

/// Returns a sequence that goes `passes` times over all `pages` pages in order.
std::vector<std::uint32_t> passes_over(std::size_t pages, unsigned passes);

}  // namespace isthmus::paging
