#pragma once

// Atomic updates by a GPU, and the GPU's side of a ping-pong.

#include <cstdint>

#include "device/kernel/kernel.hpp"
#include "microbench/atomics/bins.hpp"

namespace isthmus::microbench::atomics {

/// Maximum work of a block: `chunks` times `per_thread` updates by each thread.
struct Work {
  std::uint64_t chunks = 1;
  unsigned per_thread = 64;
  std::uint64_t first_run = 0;  ///< number of the run of block 0
  bool system_scope = false;
  std::uint32_t* flags = nullptr;  ///< device address: [0] begun, [1] stop after this chunk; nullptr to run all
};

/// Queues a kernel whose block b performs run `first_run` + b and writes the number of chunks done to `chunks_done[b]`.
template <class T>
void queue_updates(device::Stream& stream, T* bins, const Order& order, const Work& work,
                   const device::LaunchShape& shape, unsigned long long* chunks_done);

/// Queues a kernel of one thread that waits for 1, 3, … in `line[0]` and answers with 2, 4, …, `rounds` times. The
/// kernel checks that `line[1]` contains the payload that the other side wrote before, and counts mismatches in
/// `*wrong`, which becomes all ones if the kernel gives up after `timeout` seconds.
void queue_ping_pong(device::Stream& stream, std::uint32_t* line, std::uint32_t rounds, double timeout,
                     std::uint32_t* wrong);

/// Returns the value written to line[1] before `turn` is written to line[0].
constexpr std::uint32_t payload(std::uint32_t turn) {
  return turn * 2654435761u + 1;
}

}  // namespace isthmus::microbench::atomics
