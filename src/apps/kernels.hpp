#pragma once

// Device code that several programs share.

#include <cstddef>
#include <cstdint>

#include "device/kernel/staging.hpp"

namespace isthmus::apps {

using device::BulkBarrier, device::Kernel, device::TileStaging;

/// Tiles of a block when `n` elements are cut into tiles of `size`: every gridDim.x-th tile, starting at tile
/// blockIdx.x. `n` is a reference because a copy makes nvcc 13.0 generate different loops in the callers, as short as
/// half the length; the effect on time was not measured.
template <unsigned size>
struct TilesOfBlock {
  const std::size_t& n;

  __device__ std::uint64_t count() const {
    const std::size_t all = (n + size - 1) / size;
    return blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  }
  /// Returns the number of the first element of one of the block's tiles; length() returns the tile's number of
  /// elements.
  __device__ std::size_t first(std::uint64_t tile) const { return (blockIdx.x + tile * gridDim.x) * size; }
  __device__ unsigned length(std::uint64_t tile) const {
    return n - first(tile) < size ? static_cast<unsigned>(n - first(tile)) : size;
  }
};

/// Returns the value held by lane `lane ^ bits`.
template <class T>
__device__ inline T exchanged(T value, int bits) {
  return device::shuffle_xor(device::full_warp(), value, bits);
}

/// Four numbers, for kernel arguments, which cannot contain HIP's float4.
struct Four {
  float x, y, z, w;
};

// Element-wise arithmetic on float4 and Four.
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
