#pragma once

// Host side of a kernel: its name, its shape and its launch.
//
//   launch(stream, EMULATOR_KERNEL(saxpy<4>), {.grid = 132, .block = 256}, n, a, x, y);

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulator/device.hpp"

namespace emulator {

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
  bool cooperative = false;      ///< all blocks are resident, and grid_sync() is allowed
};

/// Kernel with the name used in error messages.
template <class... Parameters>
struct Kernel {
  const char* name;
  void (*function)(Parameters...);
};
template <class... Parameters>
Kernel(const char*, void (*)(Parameters...)) -> Kernel<Parameters...>;

#define EMULATOR_KERNEL(...)  \
  ::emulator::Kernel {        \
    #__VA_ARGS__, __VA_ARGS__ \
  }

/// Kernel with its arguments.
struct BoundLaunch {
  const char* name;
  void* const* arguments;  ///< one pointer per parameter
  std::size_t argument_count;
  std::uint64_t pointer_arguments;      ///< bit i: parameter i is a pointer and is checked
  void (*invoke)(const void* closure);  ///< runs the kernel for the calling thread
  const void* closure;                  ///< trivially copyable: the closure is copied and kept until the launch has run
  std::size_t closure_bytes;
};
void launch(Stream& stream, const BoundLaunch& bound, const LaunchShape& shape);

/// Maximum number of threads of a block, and of a multiprocessor, which runs one block at a time.
inline constexpr unsigned threads_per_block = 1024;
/// Throws if the device cannot launch a kernel of this shape.
void check_shape(const char* kernel, const LaunchShape& shape);

/// Queues `kernel` on `stream`. Argument types are converted to the kernel's parameter types.
template <class... P, class... A>
void launch(Stream& stream, Kernel<P...> kernel, const LaunchShape& shape, A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel must be launched with as many arguments as it has parameters");
  static_assert((std::is_trivially_copyable_v<P> && ...), "kernel parameters must be trivially copyable");
  struct Closure {
    void (*function)(P...);
    std::tuple<P...> arguments;
    static void invoke(const void* self) {
      const auto& closure = *static_cast<const Closure*>(self);
      std::apply(closure.function, closure.arguments);
    }
  };
  Closure closure{kernel.function, std::tuple<P...>{static_cast<P>(std::forward<A>(arguments))...}};
  std::uint64_t pointers = 0, bit = 1;
  ((pointers |= std::is_pointer_v<P> ? bit : 0, bit <<= 1), ...);
  std::apply(
      [&](auto&... argument) {
        void* places[] = {const_cast<void*>(static_cast<const void*>(&argument))..., nullptr};
        launch(stream,
               BoundLaunch{kernel.name, places, sizeof...(P), pointers, &Closure::invoke, &closure, sizeof closure},
               shape);
      },
      closure.arguments);
}

/// `__constant__` or `__device__` variable, made with EMULATOR_SYMBOL(name). On the emulator, all devices share it.
struct Symbol {
  const char* name;
  const void* address;
  std::size_t bytes;
};

#define EMULATOR_SYMBOL(NAME)                            \
  ::emulator::Symbol {                                   \
    #NAME, static_cast<const void*>(&NAME), sizeof(NAME) \
  }

/// Copy the symbol's first bytes in stream order.
void copy_to_symbol(Symbol symbol, const void* source, std::size_t bytes, Stream& stream);
void copy_from_symbol(void* destination, Symbol symbol, std::size_t bytes, Stream& stream);

}  // namespace emulator
