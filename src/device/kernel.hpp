#pragma once

// Kernel side of the device layer. A kernel is plain CUDA C++ (__global__, __shared__, threadIdx,
// __syncthreads, atomics) and is compiled from one source as CUDA, as HIP and as host C++ for the emulator.
// Where vendors differ, or where the emulator must see what happens, use the names below.
//
//   launch(stream, ISTHMUS_KERNEL(saxpy<4>), {.grid = 132, .block = 256}, n, a, x, y);
//
// kernel_cuda.hpp, kernel_hip.hpp and kernel_emulator.hpp each define, as device functions:
//
//   T*       dynamic_shared<T>()                      the block's dynamic shared memory, 128-byte aligned
//   int      warp_size(), lane(), warp_in_block()     warp_size is 32 or 64 and never a constant to rely on
//   LaneMask full_warp()                              all lanes of a full warp (64 bits wide, always)
//   T        shuffle(mask, v, lane), shuffle_down(mask, v, delta), shuffle_up(…), shuffle_xor(mask, v, bits)
//   LaneMask ballot(mask, predicate);  bool any(mask, p), all(mask, p)
//   LaneMask match_any(mask, v);  bool match_all(mask, v)
//   void     sync_warp(mask)
//   void     grid_sync()                              cooperative launches only
//   void     spin_wait()                              in the body of a loop that waits for someone else
//   void     spin_until(predicate)                    waits; in lockstep emulation all lanes must get through
//   double   device_seconds()                         a clock that all threads of the device share
//   T        load_acquire(const T*), void store_release(T*, T)     system scope, 32 and 64 bits
//   T        load_streaming(const T*), void store_streaming(T*, T) evict-first hints, vector types too
//   T        load_global(const T*)                    a cached load of 64 bits that is known to be of global memory, as
//                                                     the pointer that another load yields is not
//   void     async_copy<Bytes>(void* shared, const void* global)   4, 8 or 16; lands at async_wait
//   void     async_commit(), async_wait<Pending>()    waits until at most Pending commits are in flight
//   class    BulkBarrier { init(arrivals), expect(bytes), wait(parity) }     in shared memory, 8 bytes;
//                                                     expect() arrives too, before or after its copies
//   void     bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier&)   multiples of 16
//   void     bulk_fence()                             orders this thread's ordinary accesses to shared memory before
//   bulk
//                                                     copies that other threads issue after the next barrier
//   bool     has_async_copy(), has_bulk_copy()        whether the hardware does it, else the named fallback runs
//
// CUDA's own spellings compile too, with CUDA's overloads: __syncwarp, __shfl_sync and its kin with a width,
// __ballot_sync, __any_sync, __all_sync, __match_any_sync, __match_all_sync, warpSize; __ldg, __ldca, __ldcg, __ldcs,
// __stwb, __stcg, __stcs; bit counts and casts, conversions with a rounding, min and max; cooperative_groups'
// this_thread_block(), this_grid() and tiled_partition<N>. A mask is 32 bits on CUDA, 64 elsewhere: write LaneMask and
// full_warp(). __activemask, textures and clusters are refused with a sentence by the emulator's build (and HIP's).
// Half precision and bfloat16: device/float16.hpp.
//
// The emulator checks all of them; see docs/decisions/0002-emulator.md for what it can and cannot show.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device/device.hpp"

namespace isthmus::device {

/// Lanes of a warp, lowest lane first; 64 bits on every backend.
using LaneMask = std::uint64_t;

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  constexpr Extent() = default;
  constexpr Extent(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr std::uint64_t size() const { return std::uint64_t{x} * y * z; }
};

struct LaunchShape {
  Extent grid{};
  Extent block{};
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of a block
  int carveout = -1;             ///< preferred shared share of L1, percent; -1 leaves the driver's choice
  bool cooperative = false;      ///< all blocks resident, grid_sync() allowed
};

/// A kernel and the name that reports and errors call it by.
template <class... Parameters>
struct Kernel {
  const char* name;
  void (*function)(Parameters...);
};
template <class... Parameters>
Kernel(const char*, void (*)(Parameters...)) -> Kernel<Parameters...>;

#define ISTHMUS_KERNEL(...)   \
  ::isthmus::device::Kernel { \
    #__VA_ARGS__, __VA_ARGS__ \
  }

namespace detail {

/// One thread's run of a kernel with its arguments bound (emulator), or the argument array (GPU).
struct BoundLaunch {
  const char* name;
  const void* function;
  void** arguments;  // one pointer per parameter
  std::size_t argument_count;
  std::uint64_t pointer_arguments;      // bit i: parameter i is a pointer (the emulator checks where it points)
  void (*invoke)(const void* closure);  // emulator: runs the kernel for the calling thread
  const void* closure;
  std::size_t closure_bytes;  // trivially copyable: copied until the launch has run
};

void launch(Stream& stream, const BoundLaunch& bound, const LaunchShape& shape);
KernelInfo kernel_info(const char* name, const void* function, const LaunchShape& shape);

template <class... P>
struct Closure {
  static constexpr std::uint64_t pointer_arguments() {
    std::uint64_t bits = 0, bit = 1;
    ((bits |= std::is_pointer_v<P> ? bit : 0, bit <<= 1), ...);
    return bits;
  }
  void (*function)(P...);
  std::tuple<P...> arguments;
  static void invoke(const void* self) {
    const auto& closure = *static_cast<const Closure*>(self);
    std::apply(closure.function, closure.arguments);
  }
};

}  // namespace detail

/// Queues `kernel` on `stream`. Argument types are converted to the kernel's parameter types.
template <class... P, class... A>
void launch(Stream& stream, Kernel<P...> kernel, const LaunchShape& shape, A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel is launched with as many arguments as it has parameters");
  static_assert((std::is_trivially_copyable_v<P> && ...), "kernel parameters are copied bytewise");
  detail::Closure<P...> closure{kernel.function, std::tuple<P...>{static_cast<P>(std::forward<A>(arguments))...}};
  std::apply(
      [&](auto&... argument) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&argument))..., nullptr};
        // Named with its type: nvcc 13.0 loses the type of a braced argument inside a generic lambda.
        const detail::BoundLaunch bound{kernel.name,
                                        reinterpret_cast<const void*>(kernel.function),
                                        pointers,
                                        sizeof...(P),
                                        detail::Closure<P...>::pointer_arguments(),
                                        &detail::Closure<P...>::invoke,
                                        &closure,
                                        sizeof closure};
        detail::launch(stream, bound, shape);
      },
      closure.arguments);
}

template <class... P>
KernelInfo kernel_info(Kernel<P...> kernel, const LaunchShape& shape) {
  return detail::kernel_info(kernel.name, reinterpret_cast<const void*>(kernel.function), shape);
}

/// A `__constant__` or `__device__` variable, made with ISTHMUS_SYMBOL(name): the host's own access to one is no access
/// to the device's, which the compilers let pass. Each device has one of its own.
struct Symbol {
  const char* name;
  const void* address;
  std::size_t bytes;
};

#define ISTHMUS_SYMBOL(NAME)                             \
  ::isthmus::device::Symbol {                            \
    #NAME, static_cast<const void*>(&NAME), sizeof(NAME) \
  }

/// The symbol's first bytes, in stream order, of the stream's device, which is selected. Host memory that is not
/// page-locked may be used again when the call returns.
void copy_to_symbol(Symbol symbol, const void* source, std::size_t bytes, Stream& stream);
void copy_from_symbol(void* destination, Symbol symbol, std::size_t bytes, Stream& stream);

}  // namespace isthmus::device

#if defined(ISTHMUS_BACKEND_CUDA)
#include "device/cuda/kernel_cuda.hpp"
#elif defined(ISTHMUS_BACKEND_HIP)
#include "device/hip/kernel_hip.hpp"
#else
#include "device/emulator/kernel_emulator.hpp"
#endif
