#pragma once

// How kernels of the studies of paging read a page, a warp each.

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench::paged {

/// ulonglong2 is not trivially copyable under HIP.
struct alignas(16) Pair {
  unsigned long long x, y;
};

/// Calls `action` for elements rank, rank + width, … of a page, so many at a time: all are asked for before the first
/// is used. A loop whose stride the compiler does not know asks for one after the other, even unrolled.
template <class Action>
inline __device__ void for_each_batch(std::size_t count, Action action) {
  constexpr unsigned kInFlight = 4;
  const auto width = static_cast<unsigned>(device::warp_size());
  std::size_t j = static_cast<unsigned>(device::lane());
  for (; j + (kInFlight - 1) * width < count; j += kInFlight * width) action.template operator()<kInFlight>(j, width);
  for (; j < count; j += width) action.template operator()<1>(j, width);
}

/// Sum of the page's elements that are this lane's.
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

/// Warps take pages as they come to it: one that had to search for a frame takes fewer. With as many for each, the last
/// ones would keep the link waiting.
inline __device__ std::uint64_t take_next(unsigned long long* next) {
  const unsigned long long taken = device::lane() == 0 ? atomicAdd(next, 1ull) : 0;
  return device::shuffle(device::full_warp(), taken, 0);
}

}  // namespace isthmus::microbench::paged
