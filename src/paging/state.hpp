#pragma once

// The state of a page: one word of 64 bits, so that one atomic operation reads or changes all of it.
//
//   bits  0…19  references: holders, and those that wait to become one
//   bit   20    valid: the frame holds the page, readers may go on
//   bit   21    busy: somebody fetches the page (not valid) or writes it back (valid)
//   bit   22    dirty: the frame is newer than the host's memory
//   bit   23    used since the eviction's hand last came by
//   bit   24    ghost: the page was here before and had to go
//   bits 32…63  frame, in a valid page
//
// A thread enters a page by adding one reference, whatever the state. What it got back says in one reading whether it
// holds the page and in which frame: a frame number of its own could be of another time than the bits.

#include <cstdint>

namespace isthmus::paging {

/// What CUDA's atomics of 64 bits take.
using State = unsigned long long;

inline constexpr State kReference = 1;
inline constexpr State kReferences = (State{1} << 20) - 1;
inline constexpr State kValid = State{1} << 20;
inline constexpr State kBusy = State{1} << 21;
inline constexpr State kDirty = State{1} << 22;
inline constexpr State kUsed = State{1} << 23;
inline constexpr State kGhost = State{1} << 24;
inline constexpr unsigned kFrameShift = 32;
/// Frames that a word can number.
inline constexpr std::uint64_t kMostFrames = std::uint64_t{1} << 32;
/// Threads that may be in a page at once.
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
  write,  ///< and atomics
};

/// Whether one with a reference may go on. A page that is written back can be read but not written, or the host's
/// memory would get something of both.
constexpr bool may_go_on(State state, Access access) {
  return valid(state) && (access == Access::read || !busy(state));
}
/// Whether one with a reference may fetch the page, if nobody comes before it.
constexpr bool may_fetch(State state) {
  return !valid(state) && !busy(state);
}
constexpr State fetching(State state) {
  return state | kBusy;
}
/// What is added to the word of a page that has been fetched. Frame and ghost bit are 0 until then, or the ghost bit is
/// taken away: nothing is carried over to another field.
constexpr State fetched(std::uint32_t number, bool was_ghost) {
  return in_frame(number) + kValid - kBusy - (was_ghost ? kGhost : 0);
}

/// Whether the page in `number` may leave: nobody holds it or works on it.
constexpr bool may_leave(State state, std::uint32_t number) {
  return valid(state) && !busy(state) && references(state) == 0 && frame(state) == number;
}
/// Of a clean page: the frame is its new owner's.
constexpr State left(State) {
  return kGhost;
}
/// Whether the page in `number` may be written back: it may leave, and the host's memory is old.
constexpr bool may_clean(State state, std::uint32_t number) {
  return may_leave(state, number) && dirty(state);
}
/// Written back from now on. What becomes dirty after this is not lost: it sets the bit again.
constexpr State cleaning(State state) {
  return (state | kBusy) & ~kDirty;
}

}  // namespace isthmus::paging
