#pragma once

// How many blocks a kernel that works through memory is launched with.

#include <algorithm>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench {

/// Blocks that follow each other even out what the last ones take: on an H200, writes to a peer gain 1% over blocks
/// that stay to the end, and copies within the GPU 7%.
inline constexpr unsigned kStreamingWaves = 16;

struct BlockRequest {
  unsigned threads = 1024;  ///< of a block; no more than the device takes
  unsigned grid = 0;        ///< blocks; 0: as many as suit the device
  unsigned waves = 1;       ///< how many times the blocks that the device holds at once
  unsigned sharers = 1;     ///< kernels that run there at once, which all find room
};

/// What a launch will look like on the selected device: for the record.
struct DescribedLaunch {
  device::KernelInfo info;
  device::LaunchShape shape;
};

/// For a kernel in which each thread has one of `turns` to take.
inline device::LaunchShape shape_for(const BlockRequest& wanted, std::uint64_t turns,
                                     const device::DeviceInfo& device) {
  const unsigned threads = std::min(wanted.threads, static_cast<unsigned>(device.max_threads_per_block));
  const auto resident = static_cast<std::uint64_t>(device.multiprocessors) *
                        std::max(1u, static_cast<unsigned>(device.max_threads_per_multiprocessor) / threads);
  // Kernels that share a device take half of it together: the latches that hold their streams are on it too, and one
  // block that finds no room waits for the end of another kernel.
  const std::uint64_t own =
      wanted.sharers > 1 ? std::max<std::uint64_t>(1, resident / 2 / wanted.sharers) : wanted.waves * resident;
  const std::uint64_t useful = (turns + threads - 1) / threads;
  const std::uint64_t blocks = wanted.grid > 0 ? wanted.grid : std::min(own, useful);
  return {.grid = static_cast<unsigned>(std::max<std::uint64_t>(blocks, 1)), .block = threads};
}

}  // namespace isthmus::microbench
