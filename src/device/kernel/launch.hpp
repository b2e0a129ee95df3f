#pragma once

// Host side of a kernel: its name, its shape and its launch. Identical for every backend, so that code that only queues
// kernels or passes them on compiles in the same way for all.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device/api/device.hpp"

namespace isthmus::device {

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
  int carveout = -1;             ///< preferred share of L1 for shared memory, in percent; -1: the driver decides
  bool cooperative = false;      ///< all blocks are resident, and grid_sync() is allowed
};

/// Kernel with the name used in reports and errors.
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

/// Launch with its arguments: as a closure that a single thread runs (emulator), or as an argument array (GPU).
struct BoundLaunch {
  const char* name;
  const void* function;
  void** arguments;  // one pointer per parameter
  std::size_t argument_count;
  std::uint64_t pointer_arguments;      // bit i: parameter i is a pointer (the emulator checks what it points to)
  void (*invoke)(const void* closure);  // emulator: runs the kernel for the calling thread
  const void* closure;
  std::size_t closure_bytes;  // trivially copyable: the closure is copied and kept until the launch has run
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
  static_assert(sizeof...(P) == sizeof...(A), "a kernel must be launched with as many arguments as it has parameters");
  static_assert((std::is_trivially_copyable_v<P> && ...), "kernel parameters must be trivially copyable");
  detail::Closure<P...> closure{kernel.function, std::tuple<P...>{static_cast<P>(std::forward<A>(arguments))...}};
  std::apply(
      [&](auto&... argument) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&argument))..., nullptr};
        // The type is written explicitly, because nvcc 13.0 loses the type of a braced argument inside a generic
        // lambda.
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

/// `__constant__` or `__device__` variable, made with ISTHMUS_SYMBOL(name). Each device has its own copy. Host code
/// that uses such a variable directly does not access the device's copy, and compilers do not diagnose this.
struct Symbol {
  const char* name;
  const void* address;
  std::size_t bytes;
};

#define ISTHMUS_SYMBOL(NAME)                             \
  ::isthmus::device::Symbol {                            \
    #NAME, static_cast<const void*>(&NAME), sizeof(NAME) \
  }

/// Copy the symbol's first bytes in stream order. The variable is that of the stream's device, which must be selected.
/// Host memory that is not page-locked may be reused when the call returns.
void copy_to_symbol(Symbol symbol, const void* source, std::size_t bytes, Stream& stream);
void copy_from_symbol(void* destination, Symbol symbol, std::size_t bytes, Stream& stream);

}  // namespace isthmus::device
