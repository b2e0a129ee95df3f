#pragma once

// Half precision and bfloat16 as storage types, in kernels and on the host. Both have two bytes and are converted by
//
//   float to_float(half), to_float(bfloat16);  T from_float<T>(float)     nearest, ties to even
//
// These are vendor-neutral names of CUDA's __half2float, __float2half, __bfloat162float and __float2bfloat16, which
// also compile. These types have no arithmetic: the vendors' headers differ, and sums need a float anyway.

#include "device/kernel/kernel.hpp"

#if defined(ISTHMUS_BACKEND_CUDA)

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define ISTHMUS_FLOAT16 1
#endif

#elif defined(ISTHMUS_BACKEND_HIP)

#if defined(__HIPCC__)
#include "device/kernel/software_float16.hpp"
// AMD's bfloat16 has had three headers and three names over time, so the software type is used instead.
ISTHMUS_STORED_FLOAT(__nv_bfloat16, bfloat16_bits, float_of_bfloat16_bits)
#define ISTHMUS_FLOAT16 1
#endif

#else

#include "device/kernel/software_float16.hpp"
ISTHMUS_STORED_FLOAT(__half, half_bits, float_of_half_bits)
ISTHMUS_STORED_FLOAT(__nv_bfloat16, bfloat16_bits, float_of_bfloat16_bits)
using half = __half;
inline float __half2float(__half value) {
  return static_cast<float>(value);
}
inline __half __float2half(float value) {
  return __half(value);
}
inline __half __float2half_rn(float value) {
  return __half(value);
}
#define ISTHMUS_FLOAT16 1

#endif

#if defined(ISTHMUS_FLOAT16)

#if !defined(ISTHMUS_BACKEND_CUDA)
__host__ __device__ inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(value);
}
__host__ __device__ inline __nv_bfloat16 __float2bfloat16(float value) {
  return __nv_bfloat16(value);
}
__host__ __device__ inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return __nv_bfloat16(value);
}
#endif

namespace isthmus::device {

using half = ::__half;
using bfloat16 = ::__nv_bfloat16;
static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);

__host__ __device__ inline float to_float(half value) {
  return __half2float(value);
}
__host__ __device__ inline float to_float(bfloat16 value) {
  return __bfloat162float(value);
}
template <class T>
__host__ __device__ T from_float(float value) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, "from_float returns a half or a bfloat16");
  if constexpr (std::is_same_v<T, half>) {
    return __float2half(value);
  } else {
    return __float2bfloat16(value);
  }
}

}  // namespace isthmus::device

#endif
