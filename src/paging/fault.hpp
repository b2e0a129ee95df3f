#pragma once

// Entering and leaving a page, by a group of lanes of one warp that want the same: the protocol.
//
// There is one wait, in enter(). Each of its turns ends by itself, so lanes of one warp that enter pages each for
// itself do not hold each other up where a warp runs in lockstep.

#include "device/kernel/kernel.hpp"
#include "device/kernel/relaxed.hpp"
#include "paging/protocol.hpp"
#include "paging/submit.hpp"
#include "paging/table.hpp"

namespace isthmus::paging {

/// Lanes of one warp that do something together: all of them make the same calls.
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
  /// All lanes of this warp, which need not be full.
  __device__ static Lanes warp() {
    const unsigned width = static_cast<unsigned>(device::warp_size());
    const unsigned before = static_cast<unsigned>(device::warp_in_block()) * width;
    const unsigned left = blockDim.x * blockDim.y * blockDim.z - before;
    return Lanes(left >= width ? device::full_warp() : (device::LaneMask{1} << left) - 1);
  }
  /// The same for blocks that are whole warps: it costs fewer registers.
  __device__ static Lanes full_warp() { return Lanes(device::full_warp()); }
  /// The calling lane alone.
  __device__ static Lanes one() { return Lanes(device::LaneMask{1} << device::lane()); }
  __device__ bool leads() const { return rank == 0; }
};

/// A page that the group has a reference to; after a failure nothing is held, and `data` is memory that nobody reads.
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

/// Where a page of the region belongs; the last one need not be whole.
__device__ inline Home home_of(const Region& region, std::uint32_t page) {
  const std::size_t offset = static_cast<std::size_t>(page) << region.page_shift, left = region.bytes - offset;
  const std::size_t whole = std::size_t{1} << region.page_shift;
  return {region.memory + offset, static_cast<std::uint32_t>(left < whole ? left : whole)};
}

/// The word of the page that has the frame, or had it: null before the first.
__device__ inline State* owner_of(const Table& table, std::uint32_t number) {
  return reinterpret_cast<State*>(device::load_relaxed(table.owners + number));
}

/// Both ends are multiples of 16; `kInFlight` loads of 16 bytes are on the way a lane.
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

/// `to` is a multiple of 16.
__device__ inline void poison_page(const Lanes& lanes, std::byte* to, std::uint32_t bytes) {
  const uint4 poison = make_uint4(~0u, ~0u, ~0u, ~0u);
  const std::uint32_t words = bytes / sizeof(uint4);
  for (std::uint32_t i = lanes.rank; i < words; i += lanes.size) reinterpret_cast<uint4*>(to)[i] = poison;
  for (std::uint32_t i = words * sizeof(uint4) + lanes.rank; i < bytes; i += lanes.size) to[i] = std::byte{0xff};
}

/// Where others may come between two accesses of a state.
template <class Protocol>
__device__ inline void let_others_come() {
  if (Protocol::yields) device::spin_wait();
}

/// Changes a word from `seen`; false where it has changed meanwhile. `unseen`: a planted bug, which does not look.
__device__ inline bool change(State* word, State seen, State to, bool unseen) {
  if (!unseen) return atomicCAS(word, seen, to) == seen;
  atomicExch(word, to);
  return true;
}

/// What one turn of the search for a frame has found.
enum Find : unsigned { kNothing, kFrame, kDirtyFrame };

/// By the group's leader: a frame whose page may go. A clean page has gone when this returns, a dirty one is busy.
struct Victim {
  unsigned found = kNothing;
  std::uint32_t number = 0;
  State* word = nullptr;
  State state = 0;  ///< of a dirty page, once busy
};

/// Newcomers that get a newcomer's frame before one that returns may try for a protected one. A scan over less than so
/// many times the frames leaves the protected pages in peace.
inline constexpr unsigned kNewcomersATry = 8;

/// The frame that the policy would give next. `turn` counts the frames that were refused.
__device__ inline std::uint32_t next_frame(const Table& table, bool ghost, unsigned turn, bool& asks_use) {
  asks_use = table.eviction == Eviction::second_chance;
  if (table.eviction == Eviction::scan_resistant) {
    const std::uint32_t newcomers = table.frame_count - table.protected_count;
    // Now and then only: were the hand to pass all protected frames in one scan, the scan would have them all.
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
  constexpr unsigned kLooks = 8;  // between two looks at the clock
  if (device::load_relaxed(table.filled) < table.frame_count) {
    const unsigned fresh = atomicAdd(table.filled, 1u);
    if (fresh < table.frame_count) return {kFrame, fresh};
  }
  for (unsigned look = 0; look < kLooks; ++look) {
    bool asks_use = false;
    const std::uint32_t number = next_frame(table, ghost, turn++, asks_use);
    State* word = owner_of(table, number);
    if (word == nullptr) continue;  // its first page is on the way
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

/// The page in `number`, which the group has made busy, reaches the host's memory.
__device__ inline void write_back(const Table& table, const Lanes& lanes, std::uint32_t number) {
  const Home home = table.homes[number];
  copy_page(lanes, home.memory, frame_at(table, number), home.bytes);
  device::sync_warp(lanes.mask);
  if (lanes.leads()) {
    tally(table, kWrittenBack, home.bytes);
    __threadfence();
  }
}

/// One turn of the search for a frame, by the whole group; true when `number` is theirs.
template <class Protocol>
__device__ inline bool find_frame(const Table& table, const Lanes& lanes, bool ghost, unsigned& turn,
                                  std::uint32_t& number) {
  Victim victim;
  if (lanes.leads()) {
    victim = find_victim<Protocol>(table, ghost, turn);
    // What the last holders and its fetcher did comes before what happens to the frame now.
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
    if (gone == 0) atomicAnd(victim.word, ~kBusy);  // somebody wants it again: it stays, clean
    tally(table, gone != 0 ? kEvictions : kRescued);
    // Readers may have come and gone while it was written back: what they read comes before what is fetched now.
    if (!Protocol::evict_unfenced) __threadfence();
  }
  gone = device::shuffle(lanes.mask, gone, lanes.leader);
  device::sync_warp(lanes.mask);
  return gone != 0;
}

/// Writes back the page in `number` if it is dirty and nobody holds it; it stays.
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

/// The dirty page that the hand will come to in a while, so that its frame is clean by then.
template <class Protocol>
__device__ inline void clean_ahead(const Table& table, const Lanes& lanes) {
  const bool apart = table.eviction == Eviction::scan_resistant;
  const std::uint32_t first = apart ? table.protected_count : 0, among = table.frame_count - first;
  std::uint32_t number = 0;
  if (lanes.leads()) number = first + (device::load_relaxed(table.hands + apart) + table.clean_ahead) % among;
  clean_frame<Protocol>(table, lanes, device::shuffle(lanes.mask, number, lanes.leader));
}

/// By the leader: nobody else has said so yet.
__device__ inline void report(const Table& table, const State* word, State state, WaitedFor what) {
  if (atomicCAS(&table.failure->claimed, State{0}, State{1}) != 0) return;
  table.failure->word = word;
  table.failure->state = state;
  table.failure->what = what;
}

/// How a page has come.
enum Came : unsigned { kBeside, kThrough, kNotAtAll };

/// By the leader: sends for the page through the channel and waits until it is there. kBeside: its warp may fetch it.
/// Apart, so that kernels need no registers for it where they do nothing else than hold pages.
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

/// The bytes of a page, by whoever brings them; false after a failure.
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

/// The page comes into the frame, which is the group's, and becomes valid. False after a failure.
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
  // A page that was written back has to come again.
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

/// What the leader says after a turn of waiting.
enum Turn : unsigned { kAgain, kThere, kFetch, kFailed };

template <class Protocol>
__device__ inline bool may_become_fetcher(State* word, State seen) {
  let_others_come<Protocol>();
  return atomicCAS(word, seen, fetching(seen)) == seen;
}

/// Waits for the page or fetches it, and gives its frame; frame_count after a failure.
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

/// The group gets a reference to the page and the page into a frame, where it stays until leave(). All lanes of the
/// group call it with the same page.
template <class Protocol = Sound>
__device__ inline Held enter(const Region& region, const Lanes& lanes, std::uint32_t page, Access access) {
  State* word = region.states + page;
  State seen = 0;
  if (lanes.leads()) {
    seen = atomicAdd(word, kReference);
    if (region.marks_use && valid(seen) && !used(seen)) atomicOr(word, kUsed);
    if (!Protocol::enter_unfenced && may_go_on(seen, access)) __threadfence();  // else wait() has one
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

/// Gives the reference back. Of Access::write, whether or not anything was written.
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
