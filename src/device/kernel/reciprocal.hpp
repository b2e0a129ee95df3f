#pragma once

// Reciprocal of a number that is known to be in the normal range.

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

/// Returns 1 / value, correctly rounded, for 2^-125 < |value| < 2^125. Avoids the slow path that a division has for all
/// other numbers on NVIDIA GPUs. The single Newton step consists of the same operations as that of a division.
__host__ __device__ inline float reciprocal(float value) {
#if defined(ISTHMUS_BACKEND_CUDA) && defined(__CUDA_ARCH__)
  float guess;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(value));
  return fmaf(guess, -fmaf(guess, value, -1.0f), guess);
#else
  return 1 / value;
#endif
}

}  // namespace isthmus::device
