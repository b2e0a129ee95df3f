#pragma once

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench {

/// Argument that a launch has to copy to the device.
template <std::size_t Bytes>
struct Argument {
  std::byte bytes[Bytes];
};

/// Does nothing.
template <std::size_t Bytes>
__global__ void empty(Argument<Bytes>) {}

template <std::size_t Bytes>
void launch_empty(device::Stream& stream, const device::LaunchShape& shape, const Argument<Bytes>& argument) {
  launch(stream, device::Kernel{"empty", empty<Bytes>}, shape, argument);
}

inline constexpr unsigned kEmptyThreads = 256;

}  // namespace isthmus::microbench
