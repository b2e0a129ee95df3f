#pragma once

// Implements the functions of kernel.hpp on AMD GPUs, HIP 5 and later. Included only by device/kernel/kernel.hpp. A
// wavefront runs in lockstep and its cross-lane operations have no mask: inactive lanes contribute nothing. A mask
// argument selects among the active lanes.

#if defined(__HIPCC__)

#include <hip/hip_runtime.h>

// Included after the runtime, because this header uses the runtime's names without including it.
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>

#include "device/gpu/software_bulk_barrier.hpp"

// CUDA function that is missing in HIP's headers.
__device__ __forceinline__ void __trap() {
  __builtin_trap();
}

namespace isthmus::device {

// --- the block and its wavefronts ------------------------------------------------------------------

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __attribute__((aligned(128))) unsigned char isthmus_dynamic_shared[];
  return reinterpret_cast<T*>(isthmus_dynamic_shared);
}

__device__ __forceinline__ int warp_size() {
  return static_cast<int>(__builtin_amdgcn_wavefrontsize());
}

namespace detail {
__device__ __forceinline__ int thread_in_block() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
template <class T>
__device__ __forceinline__ bool same_bits(const T& a, const T& b) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes are matched by values of 32 or 64 bits");
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(unsigned, a) == __builtin_bit_cast(unsigned, b);
  } else {
    return __builtin_bit_cast(unsigned long long, a) == __builtin_bit_cast(unsigned long long, b);
  }
}
}  // namespace detail

__device__ __forceinline__ int lane() {
  return static_cast<int>(__lane_id());
}
__device__ __forceinline__ int warp_in_block() {
  return detail::thread_in_block() / warp_size();
}
__device__ __forceinline__ LaneMask full_warp() {
  return warp_size() == 64 ? ~LaneMask{0} : LaneMask{0xffffffffu};
}

template <class T>
__device__ __forceinline__ T shuffle(LaneMask, T value, int source_lane) {
  return __shfl(value, source_lane);
}
template <class T>
__device__ __forceinline__ T shuffle_down(LaneMask, T value, unsigned delta) {
  return __shfl_down(value, delta);
}
template <class T>
__device__ __forceinline__ T shuffle_up(LaneMask, T value, unsigned delta) {
  return __shfl_up(value, delta);
}
template <class T>
__device__ __forceinline__ T shuffle_xor(LaneMask, T value, int lane_bits) {
  return __shfl_xor(value, lane_bits);
}
__device__ __forceinline__ LaneMask ballot(LaneMask mask, bool predicate) {
  return __ballot(predicate) & mask;
}
__device__ __forceinline__ bool any(LaneMask mask, bool predicate) {
  return ballot(mask, predicate) != 0;
}
__device__ __forceinline__ bool all(LaneMask mask, bool predicate) {
  return ballot(mask, !predicate) == 0;
}
template <class T>
__device__ __forceinline__ LaneMask match_any(LaneMask mask, T value) {
  // One iteration per distinct value: the lowest remaining lane broadcasts its value, and all lanes with that value are
  // done.
  LaneMask left = mask & __ballot(1), same = 0;
  while (left != 0) {
    const T shown = __shfl(value, __builtin_ctzll(left));
    const bool mine = (left >> lane() & 1) != 0 && detail::same_bits(value, shown);
    const LaneMask sharing = __ballot(mine) & left;
    if (mine) same = sharing;
    left &= ~sharing;
  }
  return same;
}
template <class T>
__device__ __forceinline__ bool match_all(LaneMask mask, T value) {
  const LaneMask active = mask & __ballot(1);
  const T shown = __shfl(value, __builtin_ctzll(active));
  return all(active, detail::same_bits(value, shown));
}
__device__ __forceinline__ void sync_warp(LaneMask) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// --- the grid, and waits ---------------------------------------------------------------------------

__device__ __forceinline__ void grid_sync() {
  cooperative_groups::this_grid().sync();
}

__device__ __forceinline__ void spin_wait() {
  __builtin_amdgcn_s_sleep(1);
}

template <class Predicate>
__device__ __forceinline__ void spin_until(Predicate predicate) {
  while (!predicate()) spin_wait();
}

/// Returns the time in seconds on a clock shared by all threads of the device; its zero is arbitrary.
__device__ __forceinline__ double device_seconds() {
#if defined(__HIP_DEVICE_COMPILE__)                   // the headers declare the clock only in this pass
  return static_cast<double>(wall_clock64()) * 1e-8;  // 100 MHz on CDNA chips
#else
  return 0;
#endif
}

template <class T>
__device__ __forceinline__ T load_acquire(const T* pointer) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "load_acquire needs a type of 32 or 64 bits");
  return __hip_atomic_load(pointer, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
template <class T>
__device__ __forceinline__ void store_release(T* pointer, std::type_identity_t<T> value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "store_release needs a type of 32 or 64 bits");
  __hip_atomic_store(pointer, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

namespace detail {
// The compiler's nontemporal builtins accept only native vector types, and HIP's float4 is a class around such a type.
template <std::size_t Bytes>
struct NativeWord;
template <>
struct NativeWord<1> {
  using Type = std::uint8_t;
};
template <>
struct NativeWord<2> {
  using Type = std::uint16_t;
};
template <>
struct NativeWord<4> {
  using Type = std::uint32_t;
};
template <>
struct NativeWord<8> {
  using Type = std::uint64_t;
};
template <>
struct NativeWord<16> {
  using Type = std::uint32_t __attribute__((ext_vector_type(4)));
};
}  // namespace detail

template <class T>
__device__ __forceinline__ T load_global(const T* pointer) {
  static_assert(sizeof(T) == 8, "load_global needs a type of 64 bits");
#if defined(__HIP_DEVICE_COMPILE__)
  return *(const __attribute__((address_space(1))) T*)pointer;
#else
  return *pointer;
#endif
}
template <class T>
__device__ __forceinline__ T load_streaming(const T* pointer) {
  using Word = typename detail::NativeWord<sizeof(T)>::Type;
  const Word word = __builtin_nontemporal_load(reinterpret_cast<const Word*>(pointer));
  T value;
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
__device__ __forceinline__ void store_streaming(T* pointer, std::type_identity_t<T> value) {
  using Word = typename detail::NativeWord<sizeof(T)>::Type;
  Word word;
  __builtin_memcpy(&word, &value, sizeof word);
  __builtin_nontemporal_store(word, reinterpret_cast<Word*>(pointer));
}

// --- copies from global to shared memory: plain loads and stores (docs/decisions/0003-one-gpu-source.md) -----------

__device__ __forceinline__ constexpr bool has_async_copy() {
  return false;
}
__device__ __forceinline__ constexpr bool has_bulk_copy() {
  return false;
}

template <unsigned Bytes>
__device__ __forceinline__ void async_copy(void* shared, const void* global) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "async_copy moves 4, 8 or 16 bytes");
  using Word = typename detail::NativeWord<Bytes>::Type;
  *static_cast<Word*>(shared) = *static_cast<const Word*>(global);
}
__device__ __forceinline__ void async_commit() {}
template <unsigned Pending>
__device__ __forceinline__ void async_wait() {}

using BulkBarrier = detail::SoftwareBulkBarrier;

__device__ __forceinline__ void bulk_fence() {}

__device__ __forceinline__ void bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier& barrier) {
  detail::copy_by_this_thread(shared, global, bytes);
  barrier.deliver(bytes);
}

}  // namespace isthmus::device

#include "device/hip/cuda_spellings_hip.hpp"
#include "device/kernel/refused_names.hpp"

#endif  // __HIPCC__
