#pragma once

#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

/// Returns the number of warps in a one-dimensional grid whose blocks consist of complete warps.
__device__ inline std::uint64_t warps_in_grid() {
  return std::uint64_t{gridDim.x} * (blockDim.x / static_cast<unsigned>(warp_size()));
}
/// Returns the index of the calling warp in such a grid.
__device__ inline std::uint64_t warp_in_grid() {
  return std::uint64_t{blockIdx.x} * (blockDim.x / static_cast<unsigned>(warp_size())) +
         static_cast<unsigned>(warp_in_block());
}

}  // namespace isthmus::device
