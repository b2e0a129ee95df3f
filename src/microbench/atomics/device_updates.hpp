#pragma once

// Atomic updates by a GPU, and the far side of a ping-pong.

#include <cstdint>

#include "device/kernel/kernel.hpp"
#include "microbench/atomics/bins.hpp"

namespace isthmus::microbench::atomics {

/// What a block does at most: `chunks` times `per_thread` updates by each thread.
struct Work {
  std::uint64_t chunks = 1;
  unsigned per_thread = 64;
  std::uint64_t first_run = 0;  ///< number of the run of block 0
  bool system_scope = false;
  std::uint32_t* flags = nullptr;  ///< kernels' address of [0] begun, [1] stop after this chunk; null: all are done
};

/// Queues a kernel of which block b does run `first_run` + b; how many chunks it has done goes to `chunks_done[b]`.
template <class T>
void queue_updates(device::Stream& stream, T* bins, const Order& order, const Work& work,
                   const device::LaunchShape& shape, unsigned long long* chunks_done);

/// Queues a kernel of one thread that waits for 1, 3, … in `line[0]` and answers with 2, 4, …, `rounds` times. What it
/// finds in `line[1]` must be what the other side wrote before: it counts what is not in `*wrong`, which is all ones
/// where it gave up after `timeout` seconds.
void queue_ping_pong(device::Stream& stream, std::uint32_t* line, std::uint32_t rounds, double timeout,
                     std::uint32_t* wrong);

/// What goes into line[1] before `turn` goes into line[0].
constexpr std::uint32_t payload(std::uint32_t turn) {
  return turn * 2654435761u + 1;
}

}  // namespace isthmus::microbench::atomics
