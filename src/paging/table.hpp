#pragma once

// State of a pager that the host and kernels share: plain pointers into device memory, which are copied bytewise.

#include <cstddef>
#include <cstdint>

#include "paging/channel.hpp"
#include "paging/state.hpp"

namespace isthmus::paging {

enum class Eviction : unsigned {
  /// The page that was fetched first is evicted first, but pages in use are skipped.
  fifo,
  /// FIFO, but a page that was used since the hand last passed is skipped once (CLOCK, second chance).
  second_chance,
  /// Most frames are protected; the rest are a FIFO for newcomers. When a page that was evicted (its ghost bit is set)
  /// is needed again, it replaces the protected page at the hand, if that page has not been used in the meantime. After
  /// 2Q (Johnson and Shasha, VLDB 1994), with CLOCK's bit instead of the protected queue and one bit per page instead
  /// of the queue of ghosts.
  scan_resistant,
};

enum Counter : unsigned {
  kFaults,        ///< number of pages fetched because they were needed
  kFetchedBytes,  ///< number of bytes fetched
  kEvictions,     ///< number of pages evicted
  kWrittenBack,   ///< number of bytes written back
  kWaits,         ///< number of waits for another group's work on a page
  kRescued,       ///< number of pages that were needed again while they were written back for eviction
  kServedBytes,   ///< number of bytes fetched through the channel
  kCounters
};

/// Host memory of the page in a frame, stored by the page's fetcher for the group that evicts it.
struct Home {
  std::byte* memory;
  std::uint32_t bytes;
};

enum class WaitedFor : unsigned { work, frame, server };  ///< cause of a wait: others' work, no frame, or the server

/// First wait that a kernel gave up.
struct Failure {
  State claimed;      ///< 0: no failure
  const State* word;  ///< state word of the page
  State state;        ///< state of the page at that time
  WaitedFor what;
};

/// Frames, and the order in which they are reused.
struct Table {
  State* owners;     ///< address, for each frame, of the state word of the frame's current or last page
  Home* homes;       ///< home of each frame's page; only the group that is busy with that page accesses it
  unsigned* filled;  ///< number of frames that have been used; may exceed frame_count
  unsigned* hands;   ///< eviction hands: of the protected (or all) frames, and of the newcomers' frames
  State* counters;
  Failure* failure;
  std::byte* frames;  ///< frame_count frames and an extra one, which is for accesses after a failure
  std::uint32_t frame_count;
  std::uint32_t protected_count;  ///< number of frames that `scan_resistant` protects
  unsigned page_shift;
  Eviction eviction;
  std::uint32_t clean_ahead;  ///< distance from the hand, in frames, at which dirty pages are written back; 0: only at
                              ///< eviction
  double deadline;            ///< maximum seconds of a wait
  Channel channel;            ///< channel through which pages are fetched, if it has slots
};

/// Contents of a page when it is fetched for the first time.
enum class Contents {
  fetched,
  poison,  ///< bytes of 0xff, NaN for floats; kernels must write the whole page before the host reads it
};

/// Paged memory that Pager::open() returns; arrays are made from it.
struct Region {
  const Table* table;  ///< device memory
  State* states;       ///< states of the region's pages
  std::byte* memory;   ///< host memory, at the address that kernels use
  std::byte* frames;
  std::size_t bytes;
  std::uint32_t frame_count;
  unsigned page_shift;
  bool marks_use;  ///< the eviction policy requires marks of used pages
  bool poisons;    ///< a page is poisoned instead of fetched the first time (Contents::poison)
};

/// Region whose pages are never evicted, returned by Pager::read_only().
struct ReadOnlyRegion {
  Region region;
};

}  // namespace isthmus::paging
