#pragma once

// Software 16-bit floating point: rounds to nearest, ties to even, and supports subnormals. Used on backends whose
// headers lack the types: for both types on the emulator, for bfloat16 on HIP.

#include <cstdint>

namespace isthmus::device::detail {

/// Converts to IEEE binary16: 1 sign, 5 exponent, 10 fraction bits.
__host__ __device__ inline std::uint16_t half_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;  // CUDA's NaN
  // Values overflow from halfway between the largest half, 65504, and the next value at that spacing.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // A half below 2^-14 is a multiple of 2^-24, like a float between 0.5 and 1, so adding 0.5 rounds as required.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, sum) - 0x3f000000));
  }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | (magnitude - 0x38000000) >> 13);
}

__host__ __device__ inline float float_of_half_bits(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return __builtin_bit_cast(float, sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude < 0x0400) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, value));
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 13) + 0x38000000));
}

/// Converts to bfloat16, the upper half of a float.
__host__ __device__ inline std::uint16_t bfloat16_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;  // CUDA's NaN
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__host__ __device__ inline float float_of_bfloat16_bits(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace isthmus::device::detail

/// Storage type, without arithmetic: that differs between the vendors' headers, so values are converted to float and
/// back by name. The compiler rejects everything not defined here.
#define ISTHMUS_STORED_FLOAT(NAME, BITS, FLOAT_OF_BITS)                                            \
  struct NAME {                                                                                    \
    NAME() = default;                                                                              \
    __host__ __device__ explicit NAME(float value) : bits(isthmus::device::detail::BITS(value)) {} \
    __host__ __device__ explicit operator float() const {                                          \
      return isthmus::device::detail::FLOAT_OF_BITS(bits);                                         \
    }                                                                                              \
    std::uint16_t bits;                                                                            \
  };
