#pragma once

// Pattern of accesses to an array in host memory. One kernel body reads it, whatever the method of accessing its pages.

#include <cstdint>

#include "microbench/paging/kernels.hpp"

namespace isthmus::microbench::paged {

/// Pages of an array that are touched, their order, and the part of each that is read.
struct Pattern {
  std::uint64_t pages = 1, touched = 1;
  std::uint64_t page_words = 0, used_words = 0, words = 0;  ///< words of a page, of its part that is read, of the array
  bool scattered = false;
  Scattered order;  ///< used if `scattered`

  constexpr std::uint64_t page(std::uint64_t turn) const { return scattered ? order[turn] : turn * pages / touched; }
  constexpr std::uint64_t first_word(std::uint64_t turn) const { return page(turn) * page_words; }
  constexpr std::uint64_t last_word(std::uint64_t turn) const {
    const std::uint64_t last = first_word(turn) + used_words;
    return last < words ? last : words;
  }
};

/// Turns [first, last) of a pattern. `memory` contains the array, beginning with page `first_page`.
struct PlainTurns {
  Pattern pattern;
  std::uint64_t first = 0, last = 0;
  const std::byte* memory = nullptr;
  std::uint64_t first_page = 0;
};
/// All turns of a pattern, in paged memory.
struct PagedTurns {
  Pattern pattern;
  paging::Region region;
};
device::KernelInfo info_of(const PlainTurns& work, const device::LaunchShape& shape);
device::KernelInfo info_of(const PagedTurns& work, const device::LaunchShape& shape);
/// Queues the turns. `next` counts the turns that warps have claimed.
void queue(device::Stream& stream, const device::LaunchShape& shape, const PlainTurns& work, unsigned long long* sum,
           unsigned long long* next);
void queue(device::Stream& stream, paging::Pager& pager, const device::LaunchShape& shape, const PagedTurns& work,
           unsigned long long* sum, unsigned long long* next);

}  // namespace isthmus::microbench::paged
