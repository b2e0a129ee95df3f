#pragma once

#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

/// For blocks in a row that are whole warps.
__device__ inline std::uint64_t warps_in_grid() {
  return std::uint64_t{gridDim.x} * (blockDim.x / static_cast<unsigned>(warp_size()));
}
/// The number of the calling warp, of these.
__device__ inline std::uint64_t warp_in_grid() {
  return std::uint64_t{blockIdx.x} * (blockDim.x / static_cast<unsigned>(warp_size())) +
         static_cast<unsigned>(warp_in_block());
}

}  // namespace isthmus::device
