#pragma once

// Kernel side of the device layer. A kernel is plain CUDA C++ (__global__, __shared__, threadIdx,
// __syncthreads, atomics) and is compiled from one source as CUDA, as HIP and as host C++ for the emulator.
// Where vendors differ, or where the emulator must observe the operation, use the functions below.
//
//   launch(stream, ISTHMUS_KERNEL(saxpy<4>), {.grid = 132, .block = 256}, n, a, x, y);
//
// kernel_cuda.hpp, kernel_hip.hpp and kernel_host.hpp each define, as device functions:
//
//   T*       dynamic_shared<T>()                      the block's dynamic shared memory, 128-byte aligned
//   int      warp_size(), lane(), warp_in_block()     warp_size is 32 or 64; do not rely on either
//   LaneMask full_warp()                              all lanes of a full warp (64 bits wide, always)
//   T        shuffle(mask, v, lane), shuffle_down(mask, v, delta), shuffle_up(…), shuffle_xor(mask, v, bits)
//   LaneMask ballot(mask, predicate);  bool any(mask, p), all(mask, p)
//   LaneMask match_any(mask, v);  bool match_all(mask, v)
//   void     sync_warp(mask)
//   void     grid_sync()                              cooperative launches only
//   void     spin_wait()                              must be in the body of a loop that waits for another thread
//   void     spin_until(predicate)                    waits; in lockstep emulation all lanes must succeed
//   double   device_seconds()                         clock shared by all threads of the device
//   T        load_acquire(const T*), void store_release(T*, T)     system scope, 32 and 64 bits
//   T        load_streaming(const T*), void store_streaming(T*, T) evict-first hints, vector types as well
//   T        load_global(const T*)                    cached 64-bit load from global memory; needed for pointers that
//                                                     were themselves loaded, where the compiler cannot infer it
//   void     async_copy<Bytes>(void* shared, const void* global)   4, 8 or 16; lands at async_wait
//   void     async_commit(), async_wait<Pending>()    waits until at most Pending commits are in flight
//   class    BulkBarrier { init(arrivals), expect(bytes), wait(parity) }     in shared memory, 8 bytes;
//                                                     expect() also arrives, before or after its copies
//   void     bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier&)   multiples of 16
//   void     bulk_fence()                             orders this thread's ordinary shared-memory accesses before bulk
//                                                     copies that other threads issue after the next barrier
//   bool     has_async_copy(), has_bulk_copy()        true if the hardware supports it; otherwise a fallback is used
//
// CUDA's own spellings also compile, with CUDA's overloads: __syncwarp, __shfl_sync and its variants with a width,
// __ballot_sync, __any_sync, __all_sync, __match_any_sync, __match_all_sync, warpSize; __ldg, __ldca, __ldcg, __ldcs,
// __stwb, __stcg, __stcs; bit counts and casts, conversions with a rounding mode, min and max; cooperative_groups'
// this_thread_block(), this_grid() and tiled_partition<N>. A mask has 32 bits on CUDA and 64 elsewhere, so use LaneMask
// and full_warp(). The emulator's build (and HIP's) rejects __activemask, textures and clusters with a sentence.
// Half precision and bfloat16: device/kernel/float16.hpp.
//
// The emulator checks the use of all these names; docs/decisions/0002-emulator.md lists what it can and cannot detect.

#include <cstdint>

#include "device/kernel/launch.hpp"

namespace isthmus::device {

/// Lanes of a warp, lowest lane first; 64 bits on every backend.
using LaneMask = std::uint64_t;

}  // namespace isthmus::device

#if defined(ISTHMUS_BACKEND_CUDA)
#include "device/cuda/kernel_cuda.hpp"
#elif defined(ISTHMUS_BACKEND_HIP)
#include "device/hip/kernel_hip.hpp"
#else
#include "device/host/kernel_host.hpp"
#endif
