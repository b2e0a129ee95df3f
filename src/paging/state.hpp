#pragma once

// State of a page: one word of 64 bits, so that a single atomic operation reads or changes all of it.
//
//   bits  0…19  references: number of groups that have pinned the page or wait to pin it
//   bit   20    valid: the frame contains the page, and readers may access it
//   bit   21    busy: the page is being fetched (if not valid) or written back (if valid)
//   bit   22    dirty: the frame is newer than host memory
//   bit   23    used: the page was used since the eviction's hand last passed
//   bit   24    ghost: the page was in a frame before and was evicted
//   bits 32…63  frame number, if the page is valid
//
// A thread enters a page by adding one reference, no matter what the state is. The value that this addition returns
// shows whether the thread has pinned the page and in which frame; a frame number that is read separately might not
// match the bits.

#include <cstdint>

namespace isthmus::paging {

/// Type that CUDA's 64-bit atomics accept.
using State = unsigned long long;

inline constexpr State kReference = 1;
inline constexpr State kReferences = (State{1} << 20) - 1;
inline constexpr State kValid = State{1} << 20;
inline constexpr State kBusy = State{1} << 21;
inline constexpr State kDirty = State{1} << 22;
inline constexpr State kUsed = State{1} << 23;
inline constexpr State kGhost = State{1} << 24;
inline constexpr unsigned kFrameShift = 32;
/// Number of frames that a state word can identify.
inline constexpr std::uint64_t kMostFrames = std::uint64_t{1} << 32;
/// Number of threads that may have references to a page at the same time.
inline constexpr std::uint64_t kMostReferences = kReferences;

constexpr std::uint32_t references(State state) {
  return static_cast<std::uint32_t>(state & kReferences);
}
constexpr bool valid(State state) {
  return (state & kValid) != 0;
}
constexpr bool busy(State state) {
  return (state & kBusy) != 0;
}
constexpr bool dirty(State state) {
  return (state & kDirty) != 0;
}
constexpr bool used(State state) {
  return (state & kUsed) != 0;
}
constexpr bool ghost(State state) {
  return (state & kGhost) != 0;
}
constexpr std::uint32_t frame(State state) {
  return static_cast<std::uint32_t>(state >> kFrameShift);
}
constexpr State in_frame(std::uint32_t number) {
  return State{number} << kFrameShift;
}

enum class Access {
  read,
  write,  ///< includes atomics
};

/// Returns whether the owner of a reference may access the page. A page that is being written back can be read but not
/// written, because the host would get a mixture of old and new data.
constexpr bool may_go_on(State state, Access access) {
  return valid(state) && (access == Access::read || !busy(state));
}
/// Returns whether the owner of a reference may fetch the page, unless another thread starts first.
constexpr bool may_fetch(State state) {
  return !valid(state) && !busy(state);
}
constexpr State fetching(State state) {
  return state | kBusy;
}
/// Returns the value to add to the word of a page that has been fetched. The frame field is 0 before that, and a ghost
/// bit that is set is subtracted, so no addition carries over into another field.
constexpr State fetched(std::uint32_t number, bool was_ghost) {
  return in_frame(number) + kValid - kBusy - (was_ghost ? kGhost : 0);
}

/// Returns whether the page in frame `number` may be evicted: it is not pinned, fetched or written back.
constexpr bool may_leave(State state, std::uint32_t number) {
  return valid(state) && !busy(state) && references(state) == 0 && frame(state) == number;
}
/// Returns the state of a clean page after eviction, when the frame no longer belongs to it.
constexpr State left(State) {
  return kGhost;
}
/// Returns whether the page in frame `number` may be written back: it may be evicted, and host memory is out of date.
constexpr bool may_clean(State state, std::uint32_t number) {
  return may_leave(state, number) && dirty(state);
}
/// Returns the state at the start of a write-back. Writes during the write-back are not lost: they set the dirty bit
/// again.
constexpr State cleaning(State state) {
  return (state | kBusy) & ~kDirty;
}

}  // namespace isthmus::paging
