#pragma once

// What host and kernels share of a pager: plain pointers into device memory, copied bytewise.

#include <cstddef>
#include <cstdint>

#include "paging/channel.hpp"
#include "paging/state.hpp"

namespace isthmus::paging {

enum class Eviction : unsigned {
  /// The page that came first goes first, but pages in use are passed over.
  fifo,
  /// The same, but a page that was used since the hand last came by is passed over once (CLOCK, second chance).
  second_chance,
  /// Most frames are protected, the rest a FIFO for newcomers: a page that had to leave (its ghost bit) and is wanted
  /// again takes the place of a protected page that nobody used meanwhile, if there is one just there. After 2Q
  /// (Johnson and Shasha, VLDB 1994), with CLOCK's bit for its protected queue and a bit a page for its queue of
  /// ghosts.
  scan_resistant,
};

enum Counter : unsigned {
  kFaults,        ///< pages fetched because somebody wanted them
  kFetchedBytes,  ///< bytes that came
  kEvictions,     ///< pages that went
  kWrittenBack,   ///< bytes that were written back
  kWaits,         ///< times that a page was in another's hands
  kRescued,       ///< victims that were wanted again while they were written back
  kServedBytes,   ///< of those that came, bytes that came through the channel
  kCounters
};

/// What a fetcher leaves for whoever evicts: where the page in a frame belongs.
struct Home {
  std::byte* memory;
  std::uint32_t bytes;
};

enum class WaitedFor : unsigned { work, frame, server };  ///< another's work on the page, a frame for it, its transport

/// The first wait that was given up.
struct Failure {
  State claimed;      ///< 0: none
  const State* word;  ///< of the page
  State state;        ///< its state then
  WaitedFor what;
};

/// Frames and the order in which they are given again.
struct Table {
  State* owners;     ///< of each frame, the address of the word of the page that has it, or had it last
  Home* homes;       ///< of each frame, its page's; of whoever is busy with that page
  unsigned* filled;  ///< frames that were given for the first time, or more
  unsigned* hands;   ///< of the protected (or all) frames, and of the newcomers'
  State* counters;
  Failure* failure;
  std::byte* frames;  ///< one more than frame_count: where accesses go after a failure
  std::uint32_t frame_count;
  std::uint32_t protected_count;  ///< of scan_resistant
  unsigned page_shift;
  Eviction eviction;
  std::uint32_t clean_ahead;  ///< so many frames before the hand, dirty pages are written back; 0: when they must go
  double deadline;            ///< seconds that a wait may take
  Channel channel;            ///< through which pages come, too
};

/// What a page holds when it comes for the first time.
enum class Contents {
  fetched,
  poison,  ///< bytes of 0xff, NaN for floats: kernels write all of it before the host reads it
};

/// Memory that is paged: what Pager::open() gives and an Array is made of.
struct Region {
  const Table* table;  ///< in device memory
  State* states;       ///< of its pages
  std::byte* memory;   ///< the host's, by the address that kernels use
  std::byte* frames;
  std::size_t bytes;
  std::uint32_t frame_count;
  unsigned page_shift;
  bool marks_use;  ///< the eviction asks which pages were used
  bool poisons;    ///< a page that comes for the first time is not fetched (Contents::poison)
};

/// A region none of whose pages ever has to leave: what Pager::read_only() gives.
struct ReadOnlyRegion {
  Region region;
};

}  // namespace isthmus::paging
