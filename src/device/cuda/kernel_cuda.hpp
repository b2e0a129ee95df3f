#pragma once

// Implements the functions of kernel.hpp on NVIDIA GPUs. Included only by device/kernel/kernel.hpp. Masks are 64 bits
// wide in the interface and narrowed here to the 32 lanes of a warp.

#if defined(__CUDACC__)

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "device/gpu/software_bulk_barrier.hpp"

namespace isthmus::device {

// --- the block and its warps -----------------------------------------------------------------------

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char isthmus_dynamic_shared[];
  return reinterpret_cast<T*>(isthmus_dynamic_shared);
}

__device__ __forceinline__ int warp_size() {
  return 32;
}

namespace detail {
__device__ __forceinline__ int thread_in_block() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
__device__ __forceinline__ unsigned narrow(LaneMask mask) {
  return static_cast<unsigned>(mask);
}
}  // namespace detail

__device__ __forceinline__ int lane() {
  unsigned lane_id;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane_id));
  return static_cast<int>(lane_id);
}
__device__ __forceinline__ int warp_in_block() {
  return detail::thread_in_block() / warp_size();
}
__device__ __forceinline__ LaneMask full_warp() {
  return 0xffffffffu;
}

template <class T>
__device__ __forceinline__ T shuffle(LaneMask mask, T value, int source_lane) {
  return __shfl_sync(detail::narrow(mask), value, source_lane);
}
template <class T>
__device__ __forceinline__ T shuffle_down(LaneMask mask, T value, unsigned delta) {
  return __shfl_down_sync(detail::narrow(mask), value, delta);
}
template <class T>
__device__ __forceinline__ T shuffle_up(LaneMask mask, T value, unsigned delta) {
  return __shfl_up_sync(detail::narrow(mask), value, delta);
}
template <class T>
__device__ __forceinline__ T shuffle_xor(LaneMask mask, T value, int lane_bits) {
  return __shfl_xor_sync(detail::narrow(mask), value, lane_bits);
}
__device__ __forceinline__ LaneMask ballot(LaneMask mask, bool predicate) {
  return __ballot_sync(detail::narrow(mask), predicate);
}
__device__ __forceinline__ bool any(LaneMask mask, bool predicate) {
  return __any_sync(detail::narrow(mask), predicate) != 0;
}
__device__ __forceinline__ bool all(LaneMask mask, bool predicate) {
  return __all_sync(detail::narrow(mask), predicate) != 0;
}
template <class T>
__device__ __forceinline__ LaneMask match_any(LaneMask mask, T value) {
  return __match_any_sync(detail::narrow(mask), value);
}
template <class T>
__device__ __forceinline__ bool match_all(LaneMask mask, T value) {
  int same = 0;
  __match_all_sync(detail::narrow(mask), value, &same);
  return same != 0;
}
__device__ __forceinline__ void sync_warp(LaneMask mask) {
  __syncwarp(detail::narrow(mask));
}

// --- the grid, and waits ---------------------------------------------------------------------------

__device__ __forceinline__ void grid_sync() {
  cooperative_groups::this_grid().sync();
}

__device__ __forceinline__ void spin_wait() {
  __nanosleep(20);
}

template <class Predicate>
__device__ __forceinline__ void spin_until(Predicate predicate) {
  while (!predicate()) spin_wait();
}

/// Returns the time in seconds on a clock shared by all threads of the device; its zero is arbitrary.
__device__ __forceinline__ double device_seconds() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return static_cast<double>(nanoseconds) * 1e-9;
}

template <class T>
__device__ __forceinline__ T load_acquire(const T* pointer) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "load_acquire needs a type of 32 or 64 bits");
  T value;
  if constexpr (sizeof(T) == 4) {
    unsigned bits;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(bits) : "l"(pointer) : "memory");
    memcpy(&value, &bits, sizeof value);
  } else {
    unsigned long long bits;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(bits) : "l"(pointer) : "memory");
    memcpy(&value, &bits, sizeof value);
  }
  return value;
}
template <class T>
__device__ __forceinline__ void store_release(T* pointer, std::type_identity_t<T> value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "store_release needs a type of 32 or 64 bits");
  if constexpr (sizeof(T) == 4) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(pointer), "r"(bits) : "memory");
  } else {
    unsigned long long bits;
    memcpy(&bits, &value, sizeof bits);
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(pointer), "l"(bits) : "memory");
  }
}

template <class T>
__device__ __forceinline__ T load_global(const T* pointer) {
  static_assert(sizeof(T) == 8, "load_global needs a type of 64 bits");
  unsigned long long bits;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(bits) : "l"(pointer) : "memory");
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
__device__ __forceinline__ T load_streaming(const T* pointer) {
  return __ldcs(pointer);
}
template <class T>
__device__ __forceinline__ void store_streaming(T* pointer, std::type_identity_t<T> value) {
  __stcs(pointer, value);
}

// --- asynchronous copies from global to shared memory ----------------------------------------------

__device__ __forceinline__ constexpr bool has_async_copy() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return true;
#else
  return false;
#endif
}
__device__ __forceinline__ constexpr bool has_bulk_copy() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return true;
#else
  return false;
#endif
}

namespace detail {
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
}  // namespace detail

/// Starts an asynchronous copy; both addresses must be multiples of Bytes. The calling thread sees the data after
/// async_wait(), other threads after a barrier that follows it.
template <unsigned Bytes>
__device__ __forceinline__ void async_copy(void* shared, const void* global) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "async_copy moves 4, 8 or 16 bytes");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  // Copies of 16 bytes may bypass L1 (.cg); smaller copies must go through it.
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(detail::shared_address(shared)),
                 "l"(__cvta_generic_to_global(global))
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(detail::shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "n"(Bytes)
                 : "memory");
  }
#else
  using Word = std::conditional_t<Bytes == 16, uint4, std::conditional_t<Bytes == 8, uint2, unsigned> >;
  *static_cast<Word*>(shared) = *static_cast<const Word*>(global);
#endif
}
__device__ __forceinline__ void async_commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <unsigned Pending>
__device__ __forceinline__ void async_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

/// Orders earlier ordinary accesses before accesses of the copy engine, which reads and writes shared memory through a
/// separate proxy.
__device__ __forceinline__ void bulk_fence() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// --- bulk copies -----------------------------------------------------------------------------------

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/// Barrier in shared memory (mbarrier). A phase ends when all arrivals and all expected bytes have arrived; the parity
/// of phases is 0, 1, 0, 1, …
class BulkBarrier {
 public:
  /// Initialises the barrier. Called by one thread; a __syncthreads() must follow before the barrier is used.
  __device__ __forceinline__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
    // Threads write the barrier and the copy engine reads it through different proxies, so a proxy fence is needed.
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  /// Arrives once and adds `bytes` to the bytes that the phase waits for. Must be called before the copies of those
  /// bytes.
  __device__ __forceinline__ void expect(unsigned bytes) {
    // The copy must not overtake earlier accesses to the tile, which a __syncthreads() has already ordered before this
    // point.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  /// Waits for the end of the phase with this parity; returns immediately if it has already ended. Any number of
  /// threads may call it.
  __device__ __forceinline__ void wait(unsigned parity) {
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{\n"
          ".reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n"
          "}\n"
          : "=r"(done)
          : "r"(address()), "r"(parity)
          : "memory");
    }
  }

 private:
  friend __device__ void bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier& barrier);
  __device__ __forceinline__ unsigned address() const { return detail::shared_address(&state_); }
  std::uint64_t state_;
};

/// Starts a bulk copy. Called by one thread; addresses and `bytes` must be multiples of 16, and `barrier` must expect
/// the bytes.
__device__ __forceinline__ void bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   detail::shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(barrier.address())
               : "memory");
}

#else

// GPUs before Hopper have no such engine: the calling thread copies, and barrier and phases have the same meaning.
using BulkBarrier = detail::SoftwareBulkBarrier;

__device__ __forceinline__ void bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier& barrier) {
  detail::copy_by_this_thread(shared, global, bytes);
  barrier.deliver(bytes);
}

#endif

}  // namespace isthmus::device

#endif  // __CUDACC__
