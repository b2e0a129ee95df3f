#pragma once

// Kernels whose memory is paged by the GPU: pages in random order, and a sweep over pages that are all resident.

#include <bit>
#include <cstdint>
#include <span>

#include "paging/placement.hpp"

namespace isthmus::microbench::paged {

/// Threads per block, and the number of blocks for which a multiprocessor has enough registers. For kernels that look
/// up each element's page, that number is one less.
inline constexpr unsigned kThreads = 256, kBlocksEach = 4;

/// Scattered order of the numbers below `count`, the same on every machine. Rounds that permute all numbers with as
/// many bits as `count` needs are repeated until the result is below `count`.
class Scattered {
 public:
  Scattered() = default;
  /// Called on the host only: nvcc silently drops std::bit_width from a kernel.  border: not called
  explicit Scattered(std::uint64_t count) : count_(count) {
    const int bits = count > 1 ? std::bit_width(count - 1) : 1;  // border: the host's
    mask_ = (std::uint64_t{1} << bits) - 1;
    shift_ = (bits + 1) / 2;
  }
  constexpr std::uint64_t operator[](std::uint64_t i) const {
    do {
      for (int round = 0; round < 3; ++round) {
        i = (i * 0x9e3779b97f4a7c15ULL + 0x632be59bd9b4e019ULL) & mask_;
        i ^= i >> shift_;
      }
    } while (i >= count_);
    return i;
  }

 private:
  std::uint64_t count_ = 1, mask_ = 1;
  int shift_ = 1;
};

/// Visit of `touched` pages of a region in `order`, one warp per page. The words are summed, or each word is
/// incremented.
struct Visit {
  paging::Region region;
  Scattered order;
  std::uint64_t touched = 0;
  paging::Access access = paging::Access::read;
};
device::KernelInfo info_of(const Visit& work, const device::LaunchShape& shape);
/// Queues a visit. `next` counts the pages of `order` that warps have claimed.
void queue(device::Stream& stream, paging::Pager& pager, const device::LaunchShape& shape, const Visit& work,
           unsigned long long* sum, unsigned long long* next);

/// Method by which a sweep accesses its memory.
enum class Through { pointer, window, read_only_window, reader, read_only_reader, element, read_only_element };
inline constexpr paging::Named<Through> kThroughNames[] = {
    {Through::pointer, "pointer"},
    {Through::window, "window"},
    {Through::read_only_window, "read_only_window"},
    {Through::reader, "reader"},
    {Through::read_only_reader, "read_only_reader"},
    {Through::element, "element"},
    {Through::read_only_element, "read_only_element"},
};

/// Sweep that sums all words, one warp per page.
struct Sweep {
  paging::Region region;
  const std::byte* memory = nullptr;  ///< used with Through::pointer
  Through through = Through::pointer;
};
device::KernelInfo info_of(const Sweep& work, const device::LaunchShape& shape);
void queue(device::Stream& stream, paging::Pager& pager, const device::LaunchShape& shape, const Sweep& work,
           unsigned long long* sum);

}  // namespace isthmus::microbench::paged
