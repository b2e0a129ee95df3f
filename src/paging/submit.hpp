#pragma once

// A fetcher's side of a channel, in kernels: claim a slot, submit a request, poll for its answer.

#include "device/kernel/kernel.hpp"
#include "device/kernel/relaxed.hpp"
#include "paging/channel.hpp"

namespace isthmus::paging {

/// What a fetcher has of a channel.
struct Submission {
  std::uint32_t slot, number;
};

/// By one lane: whether its warp may fetch a page itself, beside the channel. It says so when it has: pulled().
/// Only so many may as fill the link: with more of them, pages through the channel take longer (docs/paging.md).
__device__ inline bool may_pull(const Channel& channel) {
  if (channel.pulls == 0 || device::load_relaxed(channel.pulled) >= channel.pulls) return false;
  if (atomicAdd(channel.pulled, 1u) < channel.pulls) return true;
  atomicAdd(channel.pulled, ~0u);
  return false;
}

__device__ inline void pulled(const Channel& channel) {
  atomicAdd(channel.pulled, ~0u);
}

/// By one lane: a slot for a page. False where none is found just now.
__device__ inline bool claim(const Channel& channel, Submission& mine) {
  constexpr unsigned kLooks = 8;
  for (unsigned look = 0; look < kLooks; ++look) {
    const std::uint32_t slot = atomicAdd(channel.next, 1u) % channel.slots;
    if (device::load_relaxed(channel.taken + slot) != 0 || atomicCAS(channel.taken + slot, 0u, 1u) != 0) continue;
    __threadfence();  // the last owner's answer comes before this request
    mine = {slot, device::load_relaxed(channel.served + slot) + 1};
    return true;
  }
  return false;
}

/// Sends the request of a slot that was claimed.
__device__ inline void submit(const Channel& channel, const Submission& mine, std::byte* to, const std::byte* from,
                              std::uint32_t bytes) {
  Request* request = channel.requests + mine.slot;
  device::store_relaxed(&request->from, from);
  device::store_relaxed(&request->to, to);
  device::store_relaxed(&request->bytes, bytes);
  device::store_release(channel.numbers + mine.slot, mine.number);
}

/// Whether the page is there; the slot is then free.
__device__ inline bool poll(const Channel& channel, const Submission& mine) {
  // A look that finds nothing is a plain one: acquiring may empty the multiprocessor's cache under warps that copy.
  if (device::load_relaxed(channel.served + mine.slot) != mine.number) return false;
  device::load_acquire(channel.served + mine.slot);
  __threadfence();
  atomicExch(channel.taken + mine.slot, 0u);
  return true;
}

}  // namespace isthmus::paging
