// Warp operations: the lanes of a mask meet, and the last lane to arrive computes all results.

#include <algorithm>
#include <cstring>

#include "emulator/block.hpp"
#include "emulator/format.hpp"
#include "emulator/memory.hpp"

namespace emulator {
namespace {

const char* name_of(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::sync:
      return "sync_warp";
    case WarpOperation::shuffle:
      return "shuffle";
    case WarpOperation::shuffle_up:
      return "shuffle_up";
    case WarpOperation::shuffle_down:
      return "shuffle_down";
    case WarpOperation::shuffle_xor:
      return "shuffle_xor";
    case WarpOperation::ballot:
      return "ballot";
    case WarpOperation::any:
      return "any";
    case WarpOperation::all:
      return "all";
    case WarpOperation::match_any:
      return "match_any";
    case WarpOperation::match_all:
      return "match_all";
    case WarpOperation::syncwarp:
      return "__syncwarp";
    case WarpOperation::shfl_sync:
      return "__shfl_sync";
    case WarpOperation::shfl_up_sync:
      return "__shfl_up_sync";
    case WarpOperation::shfl_down_sync:
      return "__shfl_down_sync";
    case WarpOperation::shfl_xor_sync:
      return "__shfl_xor_sync";
    case WarpOperation::ballot_sync:
      return "__ballot_sync";
    case WarpOperation::any_sync:
      return "__any_sync";
    case WarpOperation::all_sync:
      return "__all_sync";
    case WarpOperation::match_any_sync:
      return "__match_any_sync";
    case WarpOperation::match_all_sync:
      return "__match_all_sync";
  }
  return "warp operation";
}

/// Returns the operation in our own spelling.
WarpOperation plain(WarpOperation operation) {
  if (operation < WarpOperation::syncwarp) return operation;
  return static_cast<WarpOperation>(static_cast<int>(operation) - static_cast<int>(WarpOperation::syncwarp));
}

LaneMask bits_of(const Thread& thread) {
  LaneMask bits;
  std::memcpy(&bits, thread.value, sizeof bits);
  return bits;
}

// Returns the source lane. At the ends of the warp, where there is no source lane, up and down return a lane's own
// value, as on hardware. CUDA's spellings, which divide the warp into segments, pass the source as their argument.
int source_lane(WarpOperation operation, int lane, int argument, int warp_size) {
  switch (operation) {
    case WarpOperation::shuffle_up:
      return lane - argument < 0 ? lane : lane - argument;
    case WarpOperation::shuffle_down:
      return lane + argument >= warp_size ? lane : lane + argument;
    case WarpOperation::shuffle_xor:
      return lane ^ argument;
    default:
      return argument;
  }
}

}  // namespace

void Block::meet(Thread& self, WarpOperation operation, const char* file, int line) {
  Warp& own = warps_[self.warp];
  const LaneMask bit = LaneMask{1} << self.lane;
  self.mask &= own.existing;  // the last warp of a block may be incomplete
  if ((self.mask & bit) == 0) {
    stop(sentence("block {}: {} is not in its own mask {:#x}", triple(index),
                  here(self, name_of(operation), file, line), self.mask),
         warp_size > 32 && self.lane >= 32 && self.mask >> 32 == 0
             ? sentence("a mask of 32 bits names half of this warp's {} lanes: use full_warp() and LaneMask", warp_size)
             : "let a lane call only with a mask that names it");
    abandon(self);
  }
  if ((self.mask & own.returned) != 0) {
    stop(sentence("block {}: {} waits for lane {} of mask {:#x}, which has returned", triple(index),
                  here(self, name_of(operation), file, line), __builtin_ctzll(self.mask & own.returned), self.mask),
         "name only lanes that take part in the mask");
    abandon(self);
  }
  Rendezvous* meeting = nullptr;
  for (unsigned i = 0; i < own.open; ++i) {
    if (own.rendezvous[i].mask == self.mask) meeting = &own.rendezvous[i];
  }
  if (!meeting) {
    meeting = &own.rendezvous[own.open++];
    *meeting = {operation, self.mask, 0, file, line, &own.token[own.next_token++ % Warp::tokens]};
  } else if (meeting->operation != operation || meeting->line != line || std::strcmp(meeting->file, file) != 0) {
    stop(sentence("block {}: lanes of one mask {:#x} call different warp operations: {}, others {} in {}",
                  triple(index), self.mask, here(self, name_of(operation), file, line), name_of(meeting->operation),
                  place(meeting->file, meeting->line)),
         "let all lanes of the mask reach the same call");
    abandon(self);
  }
  self.state = State::warp;
  self.operation = name_of(operation);
  self.file = file;
  self.line = line;
  meeting->arrived |= bit;
  void* token = meeting->token;
  // Only sync_warp orders memory, so that TSan finds a race between lanes that only shuffle.
  const bool orders = plain(operation) == WarpOperation::sync;
  if (orders) sanitizer_release(token);
  if (meeting->arrived == meeting->mask) {
    end_if_failed(self);
    complete(own, self.warp, *meeting);
  }
  suspend(self);
  if (orders) sanitizer_acquire(token);
}

void Block::complete(Warp& own, unsigned warp_number, Rendezvous& meeting) {
  ++progress_;
  const Rendezvous met = meeting;
  meeting = own.rendezvous[--own.open];
  const WarpOperation operation = plain(met.operation);
  const unsigned base = warp_number * warp_size;
  LaneMask votes = 0;
  for (LaneMask left = met.arrived; left != 0; left &= left - 1) {
    const int lane = __builtin_ctzll(left);
    if (operation != WarpOperation::sync && bits_of(*threads_[base + lane]) != 0) votes |= LaneMask{1} << lane;
  }
  for (LaneMask left = met.arrived; left != 0; left &= left - 1) {
    const int lane = __builtin_ctzll(left);
    Thread& thread = *threads_[base + lane];
    LaneMask bits = 0;
    switch (operation) {
      case WarpOperation::sync:
        continue;
      case WarpOperation::shuffle:
      case WarpOperation::shuffle_up:
      case WarpOperation::shuffle_down:
      case WarpOperation::shuffle_xor: {
        const int source = source_lane(met.operation, lane, thread.argument, static_cast<int>(warp_size));
        const bool there = source >= 0 && source < static_cast<int>(warp_size) && (met.arrived >> source & 1);
        if (there) {
          std::memcpy(thread.result, threads_[base + source]->value, sizeof thread.result);
        } else {
          std::memset(thread.result, poison_byte(grid_->configuration.poison), sizeof thread.result);
        }
        continue;
      }
      case WarpOperation::ballot:
        bits = votes;
        break;
      case WarpOperation::any:
        bits = votes != 0;
        break;
      case WarpOperation::all:
        bits = votes == met.arrived;
        break;
      case WarpOperation::match_any:
      case WarpOperation::match_all:
        for (LaneMask other = met.arrived; other != 0; other &= other - 1) {
          const int j = __builtin_ctzll(other);
          if (bits_of(*threads_[base + j]) == bits_of(thread)) bits |= LaneMask{1} << j;
        }
        if (operation == WarpOperation::match_all) bits = bits == met.arrived;
        break;
      default:
        break;
    }
    std::memcpy(thread.result, &bits, sizeof bits);
  }
  make_ready_if([&](Thread& thread) { return (met.arrived >> thread.lane & 1) != 0; }, base,
                std::min(base + warp_size, size_));
}

void Block::misuse(Thread& self, const char* operation, const char* what, int value, const char* hint, const char* file,
                   int line) {
  stop(sentence("block {}: {} received the {} {}", triple(index), here(self, operation, file, line), what, value),
       hint);
  abandon(self);
}

namespace detail {

void misuse(WarpOperation operation, const char* what, int value, const char* hint, const char* file, int line) {
  current_block().misuse(current(), name_of(operation), what, value, hint, file, line);
}

void warp_operation(WarpOperation operation, LaneMask mask, void* value, unsigned bytes, int argument, const char* file,
                    int line) {
  Thread& self = current();
  self.mask = mask;
  self.argument = argument;
  self.value_bytes = bytes;
  std::memset(self.value, 0, sizeof self.value);
  if (bytes != 0) std::memcpy(self.value, value, bytes);
  current_block().meet(self, operation, file, line);
  if (bytes != 0) std::memcpy(value, self.result, bytes);
}

}  // namespace detail

}  // namespace emulator
