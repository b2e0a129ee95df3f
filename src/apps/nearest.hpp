#pragma once

// Selection of the nearest references: keys that order distances, and sorted lists spread over the lanes of a warp.

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::apps {

/// Squared distance above the index of its reference, so that keys are ordered by both. Distances are not negative, so
/// their bits have the same order as their values.
using Key = unsigned long long;
constexpr Key none = 0x7f7fffffffffffffULL;  // larger than every other key
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

/// Inserts `key` into the sorted list that has one key per lane, drops the last key, and returns this lane's key.
__device__ inline Key inserted(Key mine, Key key) {
  const Key before = device::shuffle_up(device::full_warp(), mine, 1);
  if (mine <= key) return mine;
  return device::lane() > 0 && before > key ? before : key;
}

}  // namespace isthmus::apps
