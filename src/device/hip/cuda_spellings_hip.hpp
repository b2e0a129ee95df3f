#pragma once

// CUDA's spellings on AMD GPUs, mapped to the functions of kernel_hip.hpp. They are macros, because HIP itself defines
// some of these names, depending on the release, as functions that require a 64-bit mask. In a wavefront of 64 lanes, a
// 32-bit mask selects only the lower half, even if all lanes are meant; only the emulator detects this mistake.

#include <type_traits>

namespace isthmus::device::spelled {

// HIP's own shuffle functions follow CUDA's rules for a width and support CUDA's types.
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
  return value > 0 ? fminf(value, 1.0f) : 0.0f;  // returns 0 for NaN
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

// HIP has only __ldg, and not for all types. Hints without a counterpart become ordinary accesses; only streaming has a
// counterpart.
#define __ldg(...) ::isthmus::device::spelled::load(__VA_ARGS__)
#define __ldca(...) ::isthmus::device::spelled::load(__VA_ARGS__)
#define __ldcg(...) ::isthmus::device::spelled::load(__VA_ARGS__)
#define __ldcs(...) ::isthmus::device::load_streaming(__VA_ARGS__)
#define __stwb(...) ::isthmus::device::spelled::store(__VA_ARGS__)
#define __stcg(...) ::isthmus::device::spelled::store(__VA_ARGS__)
#define __stcs(...) ::isthmus::device::store_streaming(__VA_ARGS__)
