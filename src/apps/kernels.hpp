#pragma once

// What the kernels of several programs do.

#include <cstddef>
#include <cstdint>

#include "device/kernel/staging.hpp"

namespace isthmus::apps {

using device::BulkBarrier, device::Kernel, device::TileStaging;

/// Of `n` elements in tiles of `size`, the tiles of a block: every gridDim.x-th, from the one with its own number on.
/// With a copy of `n` nvcc 13.0 makes other loops of what uses them, up to half as long: not measured.
template <unsigned size>
struct TilesOfBlock {
  const std::size_t& n;

  __device__ std::uint64_t count() const {
    const std::size_t all = (n + size - 1) / size;
    return blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  }
  /// Of the block's tiles, the first element of one, and how many it has.
  __device__ std::size_t first(std::uint64_t tile) const { return (blockIdx.x + tile * gridDim.x) * size; }
  __device__ unsigned length(std::uint64_t tile) const {
    return n - first(tile) < size ? static_cast<unsigned>(n - first(tile)) : size;
  }
};

/// What the lane whose number differs in `bits` has.
template <class T>
__device__ inline T exchanged(T value, int bits) {
  return device::shuffle_xor(device::full_warp(), value, bits);
}

/// Four numbers. HIP's float4 cannot be part of what a kernel is given.
struct Four {
  float x, y, z, w;
};

// Of float4 and Four, number by number.
template <class V>
__device__ inline V sum_of(const V& a, const V& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
template <class V>
__device__ inline float4 times(const V& a, float factor) {
  return make_float4(a.x * factor, a.y * factor, a.z * factor, a.w * factor);
}
template <class V, class W>
__device__ inline W multiply_add(const V& a, float factor, const W& b) {
  return {fmaf(a.x, factor, b.x), fmaf(a.y, factor, b.y), fmaf(a.z, factor, b.z), fmaf(a.w, factor, b.w)};
}

}  // namespace isthmus::apps
