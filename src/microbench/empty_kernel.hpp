#pragma once

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench {

/// What a launch has to carry to the device.
template <std::size_t Bytes>
struct Argument {
  std::byte bytes[Bytes];
};

// for (;;) return;
template <std::size_t Bytes>
__global__ void empty(Argument<Bytes>) {}

/// Queues an empty kernel.
template <std::size_t Bytes>
void launch_empty(device::Stream& stream, const device::LaunchShape& shape, const Argument<Bytes>& argument) {
  launch(stream, device::Kernel{"empty", empty<Bytes>}, shape, argument);
}

inline constexpr unsigned kEmptyThreads = 256;

}  // namespace isthmus::microbench
