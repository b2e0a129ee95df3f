#pragma once

// How a page is fetched by somebody else than the warp that wants it: requests in slots, which a server takes up. The
// server is a kernel of a second GPU (relay.hpp) or threads of the host (proxy.hpp). Another one, a network card's
// say, needs a queue that kernels can write, and a way to write into the device's memory.
//
// A slot has one owner at a time, from claim() to poll(), so a request and its answer are never two.

#include <cstddef>
#include <cstdint>

namespace isthmus::paging {

/// Pages that come from here to there. Written by the fetcher into the server's memory.
struct Request {
  const std::byte* from;
  std::byte* to;
  std::uint32_t bytes;
};

/// Plain pointers, copied bytewise into kernels.
struct Channel {
  Request* requests;       ///< of each slot, in the server's memory
  std::uint32_t* numbers;  ///< of each slot, the number of its request, from 1 on; there, too, and written last
  std::uint32_t* taken;    ///< of each slot, 1 while somebody has it
  std::uint32_t* served;   ///< of each slot, the number of the last request that was answered
  std::uint32_t* next;     ///< the slot to look at next
  std::uint32_t* pulled;   ///< pages that warps fetch themselves just now
  std::uint32_t slots;     ///< 0: there is no server
  std::uint32_t pulls;     ///< the most that warps fetch themselves at once; 0: all go through the channel
};

}  // namespace isthmus::paging
