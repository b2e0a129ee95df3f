#pragma once

// Fetching of pages by something other than the warp that needs them: a fetcher puts requests into slots, and a server
// processes them. The server is a kernel on a second GPU (relay.hpp) or a thread of the host (proxy.hpp). Any other
// server, for example a network card, needs a queue that kernels can write to, and a way to write into the device's
// memory.
//
// A slot has one owner at a time, from claim() to poll(), so requests and answers of different owners never mix.

#include <cstddef>
#include <cstdint>

namespace isthmus::paging {

/// One page to copy from `from` to `to`, written by the fetcher into the server's memory.
struct Request {
  const std::byte* from;
  std::byte* to;
  std::uint32_t bytes;
};

/// Plain pointers, which are copied bytewise into kernels.
struct Channel {
  Request* requests;       ///< request of each slot, in the server's memory
  std::uint32_t* numbers;  ///< number of each slot's request, from 1 on; in the server's memory, and written after the
                           ///< request
  std::uint32_t* taken;    ///< 1 while the slot has an owner, for each slot
  std::uint32_t* served;   ///< number of the last answered request, for each slot
  std::uint32_t* next;     ///< slot to try next
  std::uint32_t* pulled;   ///< number of pages that warps are fetching themselves
  std::uint32_t slots;     ///< number of slots; 0: there is no server
  std::uint32_t pulls;     ///< maximum number of pages that warps fetch themselves at the same time; 0: all pages go
                           ///< through the channel
};

}  // namespace isthmus::paging
