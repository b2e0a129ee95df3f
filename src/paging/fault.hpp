#pragma once

// Protocol for entering and leaving a page, for a group of lanes of one warp that need the same page.
//
// Lanes wait only in enter(). Each iteration of the wait ends without depending on other lanes, so that lanes of one
// warp that enter different pages do not block each other if the warp runs in lockstep.

#include "device/kernel/kernel.hpp"
#include "device/kernel/relaxed.hpp"
#include "paging/protocol.hpp"
#include "paging/submit.hpp"
#include "paging/table.hpp"

namespace isthmus::paging {

/// Lanes of one warp that act together: all of them make the same calls.
struct Lanes {
  device::LaneMask mask;
  int leader;
  unsigned rank, size;

  __device__ explicit Lanes(device::LaneMask lanes) {
    mask = lanes;
    leader = __ffsll(static_cast<long long>(lanes)) - 1;
    rank = static_cast<unsigned>(__popcll(lanes & ((device::LaneMask{1} << device::lane()) - 1)));
    size = static_cast<unsigned>(__popcll(lanes));
  }
  /// Returns all lanes of this warp; the warp need not be full.
  __device__ static Lanes warp() {
    const unsigned width = static_cast<unsigned>(device::warp_size());
    const unsigned before = static_cast<unsigned>(device::warp_in_block()) * width;
    const unsigned left = blockDim.x * blockDim.y * blockDim.z - before;
    return Lanes(left >= width ? device::full_warp() : (device::LaneMask{1} << left) - 1);
  }
  /// Returns the same as warp(), but only for blocks of whole warps, and uses fewer registers.
  __device__ static Lanes full_warp() { return Lanes(device::full_warp()); }
  /// Returns only the calling lane.
  __device__ static Lanes one() { return Lanes(device::LaneMask{1} << device::lane()); }
  __device__ bool leads() const { return rank == 0; }
};

/// Page to which the group has a reference. After a failure no page is pinned, and `data` points to memory whose
/// contents do not matter.
struct Held {
  std::byte* data;
  bool failed;
};

namespace detail {

__device__ inline void tally(const Table& table, Counter counter, State amount = 1) {
  atomicAdd(table.counters + counter, amount);
}

__device__ inline std::byte* frame_at(const Table& table, std::uint32_t number) {
  return table.frames + (static_cast<std::size_t>(number) << table.page_shift);
}

/// Returns the host memory of a page of the region; the region's last page may be shorter.
__device__ inline Home home_of(const Region& region, std::uint32_t page) {
  const std::size_t offset = static_cast<std::size_t>(page) << region.page_shift, left = region.bytes - offset;
  const std::size_t whole = std::size_t{1} << region.page_shift;
  return {region.memory + offset, static_cast<std::uint32_t>(left < whole ? left : whole)};
}

/// Returns the state word of the frame's current or last page; null if the frame has not been used.
__device__ inline State* owner_of(const Table& table, std::uint32_t number) {
  return reinterpret_cast<State*>(device::load_relaxed(table.owners + number));
}

/// Copies a page. Both addresses must be multiples of 16; each lane has `kInFlight` loads of 16 bytes in flight.
template <unsigned kInFlight = 4>
__device__ inline void copy_page(const Lanes& lanes, std::byte* to, const std::byte* from, std::uint32_t bytes) {
  const uint4* source = reinterpret_cast<const uint4*>(from);
  uint4* destination = reinterpret_cast<uint4*>(to);
  const std::uint32_t words = bytes / sizeof(uint4);
  std::uint32_t i = lanes.rank;
  for (; i + (kInFlight - 1) * lanes.size < words; i += kInFlight * lanes.size) {
    uint4 word[kInFlight];
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) word[j] = device::load_streaming(source + i + j * lanes.size);
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) destination[i + j * lanes.size] = word[j];
  }
  for (; i < words; i += lanes.size) destination[i] = device::load_streaming(source + i);
  for (i = words * sizeof(uint4) + lanes.rank; i < bytes; i += lanes.size) to[i] = from[i];
}

/// Fills a page with poison. `to` must be a multiple of 16.
__device__ inline void poison_page(const Lanes& lanes, std::byte* to, std::uint32_t bytes) {
  const uint4 poison = make_uint4(~0u, ~0u, ~0u, ~0u);
  const std::uint32_t words = bytes / sizeof(uint4);
  for (std::uint32_t i = lanes.rank; i < words; i += lanes.size) reinterpret_cast<uint4*>(to)[i] = poison;
  for (std::uint32_t i = words * sizeof(uint4) + lanes.rank; i < bytes; i += lanes.size) to[i] = std::byte{0xff};
}

/// Lets other warps run between two accesses to a state; only tests enable this.
template <class Protocol>
__device__ inline void let_others_come() {
  if (Protocol::yields) device::spin_wait();
}

/// Changes a word from `seen` to `to`; returns false if it has changed in between. `unseen` plants a bug: the word is
/// not compared.
__device__ inline bool change(State* word, State seen, State to, bool unseen) {
  if (!unseen) return atomicCAS(word, seen, to) == seen;
  atomicExch(word, to);
  return true;
}

/// Result of one iteration of the search for a frame.
enum Find : unsigned { kNothing, kFrame, kDirtyFrame };

/// Frame that may be reused, found by the group's leader. If its page is clean, the page is already evicted; if dirty,
/// the page is busy.
struct Victim {
  unsigned found = kNothing;
  std::uint32_t number = 0;
  State* word = nullptr;
  State state = 0;  ///< state of a dirty page, after it has become busy
};

/// Number of newcomers that get a newcomer's frame before a page that returns may try to get a protected frame. A scan
/// over fewer pages than this times the number of frames does not affect protected pages.
inline constexpr unsigned kNewcomersATry = 8;

/// Returns the frame that the policy would reuse next. `turn` counts the frames already rejected.
__device__ inline std::uint32_t next_frame(const Table& table, bool ghost, unsigned turn, bool& asks_use) {
  asks_use = table.eviction == Eviction::second_chance;
  if (table.eviction == Eviction::scan_resistant) {
    const std::uint32_t newcomers = table.frame_count - table.protected_count;
    // Try a protected frame only rarely: if the hand passed all protected frames during one scan, the scan would get
    // all of them.
    if (turn == 0 && ghost && table.protected_count > 0 &&
        device::load_relaxed(table.hands + 1) % kNewcomersATry == 0) {
      asks_use = true;
      return atomicAdd(table.hands, 1u) % table.protected_count;
    }
    if (turn <= 2 * newcomers) return table.protected_count + atomicAdd(table.hands + 1, 1u) % newcomers;
  }
  return atomicAdd(table.hands, 1u) % table.frame_count;
}

template <class Protocol>
__device__ inline Victim find_victim(const Table& table, bool ghost, unsigned& turn) {
  constexpr unsigned kLooks = 8;  // number of frames examined between two checks of the clock
  if (device::load_relaxed(table.filled) < table.frame_count) {
    const unsigned fresh = atomicAdd(table.filled, 1u);
    if (fresh < table.frame_count) return {kFrame, fresh};
  }
  for (unsigned look = 0; look < kLooks; ++look) {
    bool asks_use = false;
    const std::uint32_t number = next_frame(table, ghost, turn++, asks_use);
    State* word = owner_of(table, number);
    if (word == nullptr) continue;  // the frame's first page is still being fetched
    const State state = device::load_relaxed(word);
    if (!may_leave(state, number)) continue;
    if (asks_use && used(state)) {
      atomicAnd(word, ~kUsed);
      continue;
    }
    let_others_come<Protocol>();
    if (dirty(state)) {
      if (change(word, state, cleaning(state), Protocol::cleans_unseen))
        return {kDirtyFrame, number, word, cleaning(state)};
    } else if (change(word, state, left(state), Protocol::evicts_unseen)) {
      tally(table, kEvictions);
      return {kFrame, number};
    }
  }
  return {};
}

/// Copies the page in frame `number`, which the group has made busy, to host memory.
__device__ inline void write_back(const Table& table, const Lanes& lanes, std::uint32_t number) {
  const Home home = table.homes[number];
  copy_page(lanes, home.memory, frame_at(table, number), home.bytes);
  device::sync_warp(lanes.mask);
  if (lanes.leads()) {
    tally(table, kWrittenBack, home.bytes);
    __threadfence();
  }
}

/// Performs one iteration of the search for a frame; called by the whole group. Returns true if the group now owns
/// frame `number`.
template <class Protocol>
__device__ inline bool find_frame(const Table& table, const Lanes& lanes, bool ghost, unsigned& turn,
                                  std::uint32_t& number) {
  Victim victim;
  if (lanes.leads()) {
    victim = find_victim<Protocol>(table, ghost, turn);
    // The fence orders accesses of the frame's last holders and fetcher before its next use.
    if (!Protocol::enter_unfenced) __threadfence();
  }
  const unsigned found = device::shuffle(lanes.mask, victim.found, lanes.leader);
  number = device::shuffle(lanes.mask, victim.number, lanes.leader);
  device::sync_warp(lanes.mask);
  if (found != kDirtyFrame) return found == kFrame;
  write_back(table, lanes, number);
  unsigned gone = 0;
  if (lanes.leads()) {
    let_others_come<Protocol>();
    gone = change(victim.word, victim.state, left(victim.state), Protocol::evicts_rescued) ? 1 : 0;
    if (gone == 0) atomicAnd(victim.word, ~kBusy);  // another group needs the page again: it stays, and is clean
    tally(table, gone != 0 ? kEvictions : kRescued);
    // Readers may have entered and left during the write-back: the fence orders their reads before the next fetch.
    if (!Protocol::evict_unfenced) __threadfence();
  }
  gone = device::shuffle(lanes.mask, gone, lanes.leader);
  device::sync_warp(lanes.mask);
  return gone != 0;
}

/// Writes back the page in frame `number` if it is dirty and not pinned; the page stays.
template <class Protocol = Sound>
__device__ inline void clean_frame(const Table& table, const Lanes& lanes, std::uint32_t number) {
  unsigned mine = 0;
  State* word = nullptr;
  State state = 0;
  if (lanes.leads()) {
    word = owner_of(table, number);
    if (word != nullptr) state = device::load_relaxed(word);
    if (may_clean(state, number)) {
      let_others_come<Protocol>();
      mine = change(word, state, cleaning(state), Protocol::cleans_unseen) ? 1 : 0;
    }
    __threadfence();
  }
  mine = device::shuffle(lanes.mask, mine, lanes.leader);
  device::sync_warp(lanes.mask);
  if (mine == 0) return;
  write_back(table, lanes, number);
  if (!lanes.leads()) return;
  let_others_come<Protocol>();
  if (Protocol::cleans_over)
    atomicExch(word, state & ~kDirty);
  else
    atomicAnd(word, ~kBusy);
}

/// Writes back the dirty page that the hand will reach clean_ahead frames later, so that the frame is clean by then.
template <class Protocol>
__device__ inline void clean_ahead(const Table& table, const Lanes& lanes) {
  const bool apart = table.eviction == Eviction::scan_resistant;
  const std::uint32_t first = apart ? table.protected_count : 0, among = table.frame_count - first;
  std::uint32_t number = 0;
  if (lanes.leads()) number = first + (device::load_relaxed(table.hands + apart) + table.clean_ahead) % among;
  clean_frame<Protocol>(table, lanes, device::shuffle(lanes.mask, number, lanes.leader));
}

/// Records a failure unless one is already recorded; called by the leader.
__device__ inline void report(const Table& table, const State* word, State state, WaitedFor what) {
  if (atomicCAS(&table.failure->claimed, State{0}, State{1}) != 0) return;
  table.failure->word = word;
  table.failure->state = state;
  table.failure->what = what;
}

/// Result of bringing a page: fetched by the warp, fetched through the channel, or not fetched.
enum Came : unsigned { kBeside, kThrough, kNotAtAll };

/// Requests the page through the channel and waits for it; called by the leader. Returns kBeside if the warp may fetch
/// the page itself. A separate function, so that kernels that only pin pages need no registers for it.
__device__ inline unsigned send_for(const Table& table, std::byte* to, const std::byte* from, std::uint32_t bytes) {
  const Channel& channel = table.channel;
  const double since = device::device_seconds();
  Submission mine{};
  bool claimed = false;
  unsigned came = kThrough;
  const auto turn = [&]() -> bool {
    if (!claimed) {
      if (may_pull(channel)) {
        came = kBeside;
        return true;
      }
      claimed = claim(channel, mine);
      if (claimed) submit(channel, mine, to, from, bytes);
    } else if (poll(channel, mine)) {
      return true;
    }
    if (device::load_relaxed(&table.failure->claimed) == 0 && device::device_seconds() - since <= table.deadline)
      return false;
    came = kNotAtAll;
    return true;
  };
  device::spin_until(turn);
  return came;
}

/// Copies the contents of a page with the transport that applies; returns false after a failure.
__device__ inline bool bring_page(const Table& table, const Lanes& lanes, std::byte* to, const Home& home) {
  const Channel& channel = table.channel;
  unsigned came = kBeside;
  if (channel.slots != 0) {
    if (lanes.leads()) came = send_for(table, to, home.memory, home.bytes);
    came = device::shuffle(lanes.mask, came, lanes.leader);
    device::sync_warp(lanes.mask);
  }
  if (came == kBeside) {
    copy_page(lanes, to, home.memory, home.bytes);
    device::sync_warp(lanes.mask);
    if (channel.slots != 0 && lanes.leads()) pulled(channel);
  } else if (came == kThrough && lanes.leads()) {
    tally(table, kServedBytes, home.bytes);
  }
  return came != kNotAtAll;
}

/// Copies the page into the frame, which the group owns, and makes the page valid. Returns false after a failure.
template <class Protocol>
__device__ inline bool fetch(const Region& region, const Lanes& lanes, std::uint32_t page, std::uint32_t number,
                             bool ghost) {
  const Table& table = *region.table;
  State* word = region.states + page;
  const Home home = home_of(region, page);
  if (lanes.leads()) {
    table.homes[number] = home;
    atomicExch(table.owners + number, reinterpret_cast<State>(word));
    if (Protocol::serve_early) atomicAdd(word, fetched(number, ghost));
  }
  if (Protocol::serve_early) device::spin_wait();
  // A page that has been written back must be fetched again, not poisoned.
  const bool poisoned = region.poisons && device::shuffle(lanes.mask, ghost ? 1u : 0u, lanes.leader) == 0;
  if (poisoned) {
    poison_page(lanes, frame_at(table, number), home.bytes);
    device::sync_warp(lanes.mask);
  } else if (!bring_page(table, lanes, frame_at(table, number), home)) {
    return false;
  }
  if (lanes.leads() && !Protocol::serve_early) {
    if (!Protocol::publish_unfenced) __threadfence();
    if (Protocol::number_late) {
      atomicAdd(word, fetched(0, ghost));
      device::spin_wait();
      atomicAdd(word, in_frame(number));
    } else {
      atomicAdd(word, fetched(number, ghost));
    }
  }
  if (lanes.leads()) {
    tally(table, kFaults);
    if (!poisoned) tally(table, kFetchedBytes, home.bytes);
  }
  return true;
}

/// Result of one iteration of waiting, as determined by the leader.
enum Turn : unsigned { kAgain, kThere, kFetch, kFailed };

template <class Protocol>
__device__ inline bool may_become_fetcher(State* word, State seen) {
  let_others_come<Protocol>();
  return atomicCAS(word, seen, fetching(seen)) == seen;
}

/// Waits for the page or fetches it, and returns its frame; returns frame_count after a failure.
template <class Protocol>
__device__ inline std::uint32_t wait(const Region& region, const Lanes& lanes, std::uint32_t page, Access access) {
  const Table& table = *region.table;
  State* word = region.states + page;
  State seen = 0;
  bool fetcher = false, was_ghost = false, counted = false;
  unsigned searched = 0;
  double since = -1;
  std::uint32_t number = 0;
  unsigned now = kAgain;
  const auto turn = [&]() -> bool {
    if (lanes.leads() && !fetcher) {
      seen = device::load_relaxed(word);
      if (may_go_on(seen, access)) {
        now = kThere;
      } else if (may_fetch(seen) && may_become_fetcher<Protocol>(word, seen)) {
        now = kFetch;
        was_ghost = ghost(seen);
      } else if (!counted) {
        counted = true;
        tally(table, kWaits);
        if (Protocol::leak_reference) atomicAdd(word, kReference);
      }
    }
    if (lanes.leads() && (now == kAgain || (fetcher && now == kFetch))) {
      const double clock = device::device_seconds();
      if (since < 0) since = clock;
      if (device::load_relaxed(&table.failure->claimed) != 0 || clock - since > table.deadline) {
        report(table, word, device::load_relaxed(word), fetcher ? WaitedFor::frame : WaitedFor::work);
        if (fetcher) atomicAnd(word, ~kBusy);
        atomicAdd(word, -kReference);
        now = kFailed;
      }
    }
    now = device::shuffle(lanes.mask, now, lanes.leader);
    if (now != kFetch) return now != kAgain;
    fetcher = true;
    if (!find_frame<Protocol>(table, lanes, was_ghost, searched, number)) return false;
    if (!fetch<Protocol>(region, lanes, page, number, was_ghost)) {
      now = kFailed;
      if (lanes.leads()) {
        report(table, word, device::load_relaxed(word), WaitedFor::server);
        atomicAnd(word, ~kBusy);
        atomicAdd(word, -kReference);
      }
      return true;
    }
    if (table.clean_ahead != 0) clean_ahead<Protocol>(table, lanes);
    return true;
  };
  device::spin_until(turn);
  if (now == kFailed) return table.frame_count;
  if (now == kThere) {
    if (lanes.leads()) {
      number = frame(seen);
      if (!Protocol::enter_unfenced) __threadfence();
    }
    number = device::shuffle(lanes.mask, number, lanes.leader);
    device::sync_warp(lanes.mask);
  }
  return number;
}

}  // namespace detail

/// Takes a reference to the page for the group and brings the page into a frame, where it stays until leave(). All
/// lanes of the group must call it with the same page.
template <class Protocol = Sound>
__device__ inline Held enter(const Region& region, const Lanes& lanes, std::uint32_t page, Access access) {
  State* word = region.states + page;
  State seen = 0;
  if (lanes.leads()) {
    seen = atomicAdd(word, kReference);
    if (region.marks_use && valid(seen) && !used(seen)) atomicOr(word, kUsed);
    if (!Protocol::enter_unfenced && may_go_on(seen, access)) __threadfence();  // otherwise wait() has a fence
  }
  seen = device::shuffle(lanes.mask, seen, lanes.leader);
  device::sync_warp(lanes.mask);
  std::uint32_t number = frame(seen);
  bool failed = false;
  if (!may_go_on(seen, access)) {
    number = detail::wait<Protocol>(region, lanes, page, access);
    failed = number == region.table->frame_count;
  }
  if (Protocol::hold_nothing && lanes.leads()) atomicAdd(word, -kReference);
  if (Protocol::hold_nothing) device::spin_wait();
  return {region.frames + (static_cast<std::size_t>(number) << region.page_shift), failed};
}

/// Drops the reference. Access::write counts as a write even if nothing was written.
template <class Protocol = Sound>
__device__ inline void leave(const Lanes& lanes, State* word, const Held& held, Access access) {
  device::sync_warp(lanes.mask);
  if (!lanes.leads() || held.failed) return;
  if (!Protocol::leave_unfenced) __threadfence();
  if (Protocol::dirty_late) {
    atomicAdd(word, -kReference);
    device::spin_wait();
  }
  const bool silent = Protocol::never_dirty || (Protocol::lone_lane_clean && lanes.size == 1);
  if (access == Access::write && !silent) atomicOr(word, kDirty);
  if (!Protocol::hold_nothing && !Protocol::dirty_late) atomicAdd(word, -kReference);
}

}  // namespace isthmus::paging
