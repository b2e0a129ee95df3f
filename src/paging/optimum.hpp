#pragma once

// What no eviction can do better than: to hold counted fetches against.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isthmus::paging {

/// The fewest fetches for pages that are wanted in this order, where so many, at least one, have room at once: of those
/// that are there the one goes that is wanted again last (Belady, IBM Systems Journal 1966).
std::uint64_t optimal_fetches(std::span<const std::uint32_t> wanted, std::size_t frames);

/// All of so many pages, in order, again and again.
std::vector<std::uint32_t> passes_over(std::size_t pages, unsigned passes);

}  // namespace isthmus::paging
