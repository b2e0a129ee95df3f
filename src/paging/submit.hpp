#pragma once

// Fetcher's side of a channel, in kernels: claims a slot, submits a request, polls for its answer.

#include "device/kernel/kernel.hpp"
#include "device/kernel/relaxed.hpp"
#include "paging/channel.hpp"

namespace isthmus::paging {

/// Slot that a fetcher has claimed, and the number of its request.
struct Submission {
  std::uint32_t slot, number;
};

/// Returns whether the warp may fetch a page itself instead of through the channel; called by one lane, which must call
/// pulled() after the fetch. Only as many warps may do so as are needed to fill the link: with more, pages through the
/// channel take longer (docs/paging.md).
__device__ inline bool may_pull(const Channel& channel) {
  if (channel.pulls == 0 || device::load_relaxed(channel.pulled) >= channel.pulls) return false;
  if (atomicAdd(channel.pulled, 1u) < channel.pulls) return true;
  atomicAdd(channel.pulled, ~0u);
  return false;
}

__device__ inline void pulled(const Channel& channel) {
  atomicAdd(channel.pulled, ~0u);
}

/// Claims a slot for a page; called by one lane. Returns false if no free slot was found in a few attempts.
__device__ inline bool claim(const Channel& channel, Submission& mine) {
  constexpr unsigned kLooks = 8;
  for (unsigned look = 0; look < kLooks; ++look) {
    const std::uint32_t slot = atomicAdd(channel.next, 1u) % channel.slots;
    if (device::load_relaxed(channel.taken + slot) != 0 || atomicCAS(channel.taken + slot, 0u, 1u) != 0) continue;
    __threadfence();  // orders the last owner's answer before this request
    mine = {slot, device::load_relaxed(channel.served + slot) + 1};
    return true;
  }
  return false;
}

/// Sends the request of a claimed slot.
__device__ inline void submit(const Channel& channel, const Submission& mine, std::byte* to, const std::byte* from,
                              std::uint32_t bytes) {
  Request* request = channel.requests + mine.slot;
  device::store_relaxed(&request->from, from);
  device::store_relaxed(&request->to, to);
  device::store_relaxed(&request->bytes, bytes);
  device::store_release(channel.numbers + mine.slot, mine.number);
}

/// Returns whether the page has arrived; if so, frees the slot.
__device__ inline bool poll(const Channel& channel, const Submission& mine) {
  // Poll with a relaxed load: an acquiring load may flush the multiprocessor's cache while other warps copy.
  if (device::load_relaxed(channel.served + mine.slot) != mine.number) return false;
  device::load_acquire(channel.served + mine.slot);
  __threadfence();
  atomicExch(channel.taken + mine.slot, 0u);
  return true;
}

}  // namespace isthmus::paging
