#pragma once

// A pattern of accesses to an array of the host's, read by one kernel body however its pages are reached.

#include <cstdint>

#include "microbench/paging/kernels.hpp"

namespace isthmus::microbench::paged {

/// Which pages of an array are touched, in which order, and how much of each is read.
struct Pattern {
  std::uint64_t pages = 1, touched = 1;
  std::uint64_t page_words = 0, used_words = 0, words = 0;  ///< of a page, of a touched one, of the array
  bool scattered = false;
  Scattered order;  ///< where it is

  constexpr std::uint64_t page(std::uint64_t turn) const { return scattered ? order[turn] : turn * pages / touched; }
  constexpr std::uint64_t first_word(std::uint64_t turn) const { return page(turn) * page_words; }
  constexpr std::uint64_t last_word(std::uint64_t turn) const {
    const std::uint64_t last = first_word(turn) + used_words;
    return last < words ? last : words;
  }
};

/// Turns `first` to `last` of a pattern, in memory that holds the array from page `first_page` on.
struct PlainTurns {
  Pattern pattern;
  std::uint64_t first = 0, last = 0;
  const std::byte* memory = nullptr;
  std::uint64_t first_page = 0;
};
/// All turns, in paged memory.
struct PagedTurns {
  Pattern pattern;
  paging::Region region;
};
device::KernelInfo info_of(const PlainTurns& work, const device::LaunchShape& shape);
device::KernelInfo info_of(const PagedTurns& work, const device::LaunchShape& shape);
/// `next` counts the turns that warps have taken.
void queue(device::Stream& stream, const device::LaunchShape& shape, const PlainTurns& work, unsigned long long* sum,
           unsigned long long* next);
void queue(device::Stream& stream, paging::Pager& pager, const device::LaunchShape& shape, const PagedTurns& work,
           unsigned long long* sum, unsigned long long* next);

}  // namespace isthmus::microbench::paged
