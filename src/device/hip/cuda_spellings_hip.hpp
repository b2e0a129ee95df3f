#pragma once

// CUDA's spellings on AMD GPUs, mapped onto the names of kernel_hip.hpp. As macros: some HIP has some of these names as
// functions of its own, with a mask that must have 64 bits, and which ones differs from release to release.
// A mask of 32 bits names the lower half of a wavefront of 64, which nothing here can find: the emulator does.

#include <type_traits>

namespace isthmus::device::spelled {

// HIP's own shuffles know CUDA's rules for a width, and CUDA's types.
template <class T>
__device__ __forceinline__ T shfl(LaneMask, T value, int source, int width = warp_size()) {
  return __shfl(value, source, width);
}
template <class T>
__device__ __forceinline__ T shfl_up(LaneMask, T value, unsigned delta, int width = warp_size()) {
  return __shfl_up(value, delta, width);
}
template <class T>
__device__ __forceinline__ T shfl_down(LaneMask, T value, unsigned delta, int width = warp_size()) {
  return __shfl_down(value, delta, width);
}
template <class T>
__device__ __forceinline__ T shfl_xor(LaneMask, T value, int bits, int width = warp_size()) {
  return __shfl_xor(value, bits, width);
}
template <class T>
__device__ __forceinline__ LaneMask match_all(LaneMask mask, T value, int* same) {
  *same = device::match_all(mask, value) ? 1 : 0;
  return *same != 0 ? mask & full_warp() : 0;
}
__device__ __forceinline__ void syncwarp(LaneMask mask = ~LaneMask{0}) {
  sync_warp(mask);
}

template <class T>
__device__ __forceinline__ T load(const T* address) {
  return *address;
}
template <class T>
__device__ __forceinline__ void store(T* address, std::type_identity_t<T> value) {
  *address = value;
}

__device__ __forceinline__ float saturate(float value) {
  return value > 0 ? fminf(value, 1.0f) : 0.0f;  // 0 for a NaN
}

}  // namespace isthmus::device::spelled

#define __syncwarp(...) ::isthmus::device::spelled::syncwarp(__VA_ARGS__)
#define __shfl_sync(...) ::isthmus::device::spelled::shfl(__VA_ARGS__)
#define __shfl_up_sync(...) ::isthmus::device::spelled::shfl_up(__VA_ARGS__)
#define __shfl_down_sync(...) ::isthmus::device::spelled::shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(...) ::isthmus::device::spelled::shfl_xor(__VA_ARGS__)
#define __ballot_sync(mask, predicate) ::isthmus::device::ballot(mask, (predicate) != 0)
#define __any_sync(mask, predicate) static_cast<int>(::isthmus::device::any(mask, (predicate) != 0))
#define __all_sync(mask, predicate) static_cast<int>(::isthmus::device::all(mask, (predicate) != 0))
#define __match_any_sync(...) ::isthmus::device::match_any(__VA_ARGS__)
#define __match_all_sync(...) ::isthmus::device::spelled::match_all(__VA_ARGS__)

// HIP has only __ldg, and not for all types. A hint that has no counterpart is an ordinary access; streaming has one.
#define __ldg(...) ::isthmus::device::spelled::load(__VA_ARGS__)
#define __ldca(...) ::isthmus::device::spelled::load(__VA_ARGS__)
#define __ldcg(...) ::isthmus::device::spelled::load(__VA_ARGS__)
#define __ldcs(...) ::isthmus::device::load_streaming(__VA_ARGS__)
#define __stwb(...) ::isthmus::device::spelled::store(__VA_ARGS__)
#define __stcg(...) ::isthmus::device::spelled::store(__VA_ARGS__)
#define __stcs(...) ::isthmus::device::store_streaming(__VA_ARGS__)
