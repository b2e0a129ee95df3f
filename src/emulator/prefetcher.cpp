#include "emulator/prefetcher.hpp"

namespace emulator {

namespace {

constexpr std::size_t least_pages = 16, threshold_percent = 51;

PagesOfBlock piece(std::size_t first, std::size_t pages) {
  return (~PagesOfBlock() >> (block_pages - pages)) << first;
}

}  // namespace

PagesOfBlock prefetched_pages(const PagesOfBlock& there, const PagesOfBlock& faulted, const PagesOfBlock& valid) {
  PagesOfBlock dense = there;
  for (std::size_t first = 0; first < block_pages; first += least_pages) {
    const auto group = piece(first, least_pages);
    if ((faulted & group).any()) dense |= group;
  }
  dense &= valid;
  PagesOfBlock brought;
  for (std::size_t pages = least_pages; pages <= block_pages; pages *= 2) {
    for (std::size_t first = 0; first < block_pages; first += pages) {
      const auto around = piece(first, pages) & valid;
      if ((faulted & around).none()) continue;
      if ((dense & around).count() * 100 > around.count() * threshold_percent) brought |= around;
    }
  }
  return brought & ~there & ~faulted;
}

}  // namespace emulator
