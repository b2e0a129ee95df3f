#pragma once

// How a page is fetched by somebody else than the warp that wants it: requests in slots, which a server takes up. The
// server is a kernel of a second GPU (relay.hpp) or threads of the host (proxy.hpp). Another one, a network card's
// say, needs a queue that kernels can write, and a way to write into the device's memory.
//
// A slot has one owner at a time, from claim() to poll(), so a request and its answer are never two.

#include <cstddef>
#include <cstdint>

#include "device/kernel.hpp"
#include "device/relaxed.hpp"

namespace isthmus::paging {

/// Pages that come from here to there. Written by the fetcher into the server's memory, `number` at the end.
struct Request {
  const std::byte* from;
  std::byte* to;
  std::uint32_t bytes;
  std::uint32_t number;  ///< of the slot's requests, from 1 on
};

/// Plain pointers, copied bytewise into kernels.
struct Channel {
  Request* requests;         ///< of each slot, in the server's memory; all that follows is in the client's
  std::uint32_t* taken;      ///< of each slot, 1 while somebody has it
  std::uint32_t* served;     ///< of each slot, the number of the last request that was answered
  std::uint32_t* next;       ///< the slot to look at next
  std::uint32_t* in_flight;  ///< pages on the way through the channel, and pages that warps fetch themselves
  std::uint32_t slots;       ///< 0: there is no server
  bool shares;               ///< with warps that fetch pages themselves
};

/// What a fetcher has of a channel.
struct Submission {
  std::uint32_t slot, number;
};

/// By one lane: a slot for a page. False where the channel has none to give just now; one that shares gives none, too,
/// while more pages are on the way through it than beside it.
__device__ inline bool claim(const Channel& channel, Submission& mine) {
  constexpr unsigned kLooks = 8;
  if (channel.shares && device::load_relaxed(channel.in_flight) > device::load_relaxed(channel.in_flight + 1))
    return false;
  for (unsigned look = 0; look < kLooks; ++look) {
    const std::uint32_t slot = atomicAdd(channel.next, 1u) % channel.slots;
    if (device::load_relaxed(channel.taken + slot) != 0 || atomicCAS(channel.taken + slot, 0u, 1u) != 0) continue;
    __threadfence();  // the last owner's answer comes before this request
    if (channel.shares) atomicAdd(channel.in_flight, 1u);
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
  device::store_release(&request->number, mine.number);
}

/// Whether the page is there; the slot is then free.
__device__ inline bool poll(const Channel& channel, const Submission& mine) {
  if (device::load_acquire(channel.served + mine.slot) != mine.number) return false;
  __threadfence();
  atomicExch(channel.taken + mine.slot, 0u);
  if (channel.shares) atomicAdd(channel.in_flight, ~0u);
  return true;
}

}  // namespace isthmus::paging
