#pragma once

// Number of blocks for the launch of a kernel that works through memory.

#include <algorithm>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench {

/// Number of waves of blocks in a streaming kernel. Several waves even out the delays of the last blocks: on an H200,
/// writes to a peer are 1% faster, and copies within the GPU 7% faster, than with a single wave.
inline constexpr unsigned kStreamingWaves = 16;

struct BlockRequest {
  unsigned threads = 1024;  ///< threads per block, limited to what the device allows
  unsigned grid = 0;        ///< number of blocks; 0 for as many as suit the device
  unsigned waves = 1;       ///< number of blocks as a multiple of those resident at once
  unsigned sharers = 1;     ///< number of kernels that must be resident at once
};

/// Launch on the selected device, for the record.
struct DescribedLaunch {
  device::KernelInfo info;
  device::LaunchShape shape;
};

/// Returns the launch shape of a kernel that has one piece of work for each of `turns` threads.
inline device::LaunchShape shape_for(const BlockRequest& wanted, std::uint64_t turns,
                                     const device::DeviceInfo& device) {
  const unsigned threads = std::min(wanted.threads, static_cast<unsigned>(device.max_threads_per_block));
  const auto resident = static_cast<std::uint64_t>(device.multiprocessors) *
                        std::max(1u, static_cast<unsigned>(device.max_threads_per_multiprocessor) / threads);
  // Kernels that share a device use only half of it together, because the latches that hold their streams run on it,
  // too, and a block that does not fit would wait for the end of another kernel.
  const std::uint64_t own =
      wanted.sharers > 1 ? std::max<std::uint64_t>(1, resident / 2 / wanted.sharers) : wanted.waves * resident;
  const std::uint64_t useful = (turns + threads - 1) / threads;
  const std::uint64_t blocks = wanted.grid > 0 ? wanted.grid : std::min(own, useful);
  return {.grid = static_cast<unsigned>(std::max<std::uint64_t>(blocks, 1)), .block = threads};
}

}  // namespace isthmus::microbench
