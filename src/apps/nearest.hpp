#pragma once

// Selection of what is nearest: an order of distances, and lists that are spread over the lanes of a warp.

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::apps {

/// A squared distance and the reference that it leads to, ordered by both: distances are not negative, so their bits
/// are ordered as they are.
using Key = unsigned long long;
constexpr Key none = 0x7f7fffffffffffffULL;  // the largest number
__host__ __device__ inline Key key_of(float distance, std::size_t reference) {
  unsigned bits = 0;
  __builtin_memcpy(&bits, &distance, sizeof bits);
  return Key{bits} << 32 | static_cast<unsigned>(reference);
}
__host__ __device__ inline float distance_of(Key key) {
  const auto bits = static_cast<unsigned>(key >> 32);
  float distance = 0;
  __builtin_memcpy(&distance, &bits, sizeof bits);
  return distance;
}

/// `key` in its place among those of the lanes, which are in order; the last one drops out.
__device__ inline Key inserted(Key mine, Key key) {
  const Key before = device::shuffle_up(device::full_warp(), mine, 1);
  if (mine <= key) return mine;
  return device::lane() > 0 && before > key ? before : key;
}

}  // namespace isthmus::apps
