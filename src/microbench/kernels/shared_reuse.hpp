#pragma once

// reuse=shared: elements are written back to shared memory after each iteration, as in the original suite's kernels.

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench {

/// Number of elements that a thread processes at a time. Their round trips through shared memory are independent.
inline constexpr unsigned kept_per_thread = 4;

/// Performs kept(e) = step(kept(e), e) `iterations` times for the elements e = first, first + stride, … below `count`.
/// Accesses are volatile because the compiler would otherwise keep the element in a register.
template <class Kept, class Step>
__device__ void iterate_in_shared(unsigned first, unsigned stride, unsigned count, unsigned iterations, Kept kept,
                                  Step step) {
  for (; first < count; first += kept_per_thread * stride) {
    volatile float* element[kept_per_thread] = {};
#pragma unroll
    for (unsigned j = 0; j < kept_per_thread; ++j) {
      if (first + j * stride < count) element[j] = kept(first + j * stride);
    }
    for (unsigned k = 0; k < iterations; ++k) {
      float value[kept_per_thread] = {};
#pragma unroll
      for (unsigned j = 0; j < kept_per_thread; ++j) {
        if (first + j * stride < count) value[j] = *element[j];
      }
#pragma unroll
      for (unsigned j = 0; j < kept_per_thread; ++j) {
        if (first + j * stride < count) *element[j] = step(value[j], first + j * stride);
      }
    }
  }
}

}  // namespace isthmus::microbench
