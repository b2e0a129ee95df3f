#pragma once

// Functions that kernels of the paging studies use to read pages, one warp per page.

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench::paged {

/// Replacement for ulonglong2, which is not trivially copyable under HIP.
struct alignas(16) Pair {
  unsigned long long x, y;
};

/// Calls `action` for elements rank, rank + width, … of a page in batches: all loads of a batch are issued before the
/// first result is used. Without batches, a loop whose stride the compiler does not know issues one load after the
/// other, even when unrolled.
template <class Action>
inline __device__ void for_each_batch(std::size_t count, Action action) {
  constexpr unsigned kInFlight = 4;
  const auto width = static_cast<unsigned>(device::warp_size());
  std::size_t j = static_cast<unsigned>(device::lane());
  for (; j + (kInFlight - 1) * width < count; j += kInFlight * width) action.template operator()<kInFlight>(j, width);
  for (; j < count; j += width) action.template operator()<1>(j, width);
}

/// Returns the sum of the elements of the page that this lane reads.
inline __device__ unsigned long long sum_of(const Pair* page, std::size_t count) {
  unsigned long long part = 0;
  for_each_batch(count, [&]<unsigned Batch>(std::size_t j, unsigned width) {
    Pair pair[Batch];
#pragma unroll
    for (unsigned k = 0; k < Batch; ++k) pair[k] = page[j + k * width];
#pragma unroll
    for (unsigned k = 0; k < Batch; ++k) part += pair[k].x + pair[k].y;
  });
  return part;
}

/// Claims the next page for the calling warp and returns its number. Pages are claimed dynamically because a warp that
/// had to search for a frame handles fewer; with equal shares, the last warps would leave the link idle.
inline __device__ std::uint64_t take_next(unsigned long long* next) {
  const unsigned long long taken = device::lane() == 0 ? atomicAdd(next, 1ull) : 0;
  return device::shuffle(device::full_warp(), taken, 0);
}

}  // namespace isthmus::microbench::paged
