#pragma once

// The reciprocal of a number that is known to be an ordinary one.

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

/// 1 / value, correctly rounded, for 2^-125 < |value| < 2^125. It spares NVIDIA GPUs the way out that the division
/// compiles to for all other numbers; what it has in common with it, one step of Newton's, are the same operations.
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
