// Warp operations: the lanes of a mask meet; the last to arrive computes all results.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/emulator/block.hpp"

namespace isthmus::device::emulator {
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
  }
  return "warp operation";
}

LaneMask bits_of(const Thread& thread) {
  LaneMask bits;
  std::memcpy(&bits, thread.value, sizeof bits);
  return bits;
}

// Beyond the warp's ends, up and down give a lane its own value, as on the hardware.
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
  self.mask &= own.existing;  // a block need not fill its last warp
  if ((self.mask & bit) == 0) {
    stop(fmt::format("block {}: {} is not in its own mask {:#x}", triple(index),
                     here(self, name_of(operation), file, line), self.mask),
         "let a lane call only with a mask that names it");
    abandon(self);
  }
  if ((self.mask & own.returned) != 0) {
    stop(fmt::format("block {}: {} waits for lane {} of mask {:#x}, which has returned", triple(index),
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
    stop(fmt::format("block {}: lanes of one mask {:#x} call different warp operations: {}, others {} in {}",
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
  // Only sync_warp orders memory: TSan shall see a race between lanes that merely shuffle.
  if (operation == WarpOperation::sync) sanitizer_release(token);
  if (meeting->arrived == meeting->mask) complete(own, self.warp, *meeting);
  suspend(self);
  if (operation == WarpOperation::sync) sanitizer_acquire(token);
}

void Block::complete(Warp& own, unsigned warp_number, Rendezvous& meeting) {
  ++progress_;
  const Rendezvous met = meeting;
  meeting = own.rendezvous[--own.open];
  const unsigned base = warp_number * warp_size;
  LaneMask votes = 0;
  for (LaneMask left = met.arrived; left != 0; left &= left - 1) {
    const int lane = __builtin_ctzll(left);
    if (met.operation != WarpOperation::sync && bits_of(*threads_[base + lane]) != 0) votes |= LaneMask{1} << lane;
  }
  for (LaneMask left = met.arrived; left != 0; left &= left - 1) {
    const int lane = __builtin_ctzll(left);
    Thread& thread = *threads_[base + lane];
    LaneMask bits = 0;
    switch (met.operation) {
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
          std::memset(thread.result, 0xff, sizeof thread.result);
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
        if (met.operation == WarpOperation::match_all) bits = bits == met.arrived;
        break;
    }
    std::memcpy(thread.result, &bits, sizeof bits);
  }
  make_ready_if([&](Thread& thread) { return (met.arrived >> thread.lane & 1) != 0; }, base,
                std::min(base + warp_size, size_));
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

}  // namespace isthmus::device::emulator
