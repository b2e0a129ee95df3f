// Copies to and from symbols, which are ordinary static variables on the emulator, shared by all devices.

#include <cstring>

#include "emulator/format.hpp"
#include "emulator/launch.hpp"
#include "emulator/memory.hpp"
#include "emulator/stream.hpp"

namespace emulator {
namespace {

void queue_symbol_copy(const char* call, const Symbol& symbol, void* destination, const void* source,
                       const void* other_end, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (bytes > symbol.bytes) {
    throw Error(ErrorKind::failure, call, sentence("{} bytes of {}, which has {}", bytes, symbol.name, symbol.bytes),
                "copy no more than the symbol's size");
  }
  StreamState& state = stream.state();
  if (state.device() != selected()) {
    throw Error(ErrorKind::failure, call,
                sentence("the stream belongs to device {}, and device {} is selected", state.device(), selected()),
                "select the stream's device first");
  }
  Memory& memory = Memory::for_caller();
  if (const auto problem = memory.range_problem(other_end, bytes, false)) {
    throw Error(ErrorKind::failure, call, *problem, "pass whole live allocations");
  }
  const bool pageable = memory.is_pageable(other_end);
  if (pageable) outside_capture(stream, call);
  const std::uint64_t ticket = state.submit([=](const FaultPointer&) -> FaultPointer {
    if (const auto late = Memory::instance().range_problem(other_end, bytes, true)) {
      return make_fault(ErrorKind::failure, sentence("a queued {} failed ({})", call, *late),
                        "order the streams with an event");
    }
    const DeviceAccess access;
    std::memcpy(destination, source, bytes);
    return nullptr;
  });
  if (pageable) state.wait(ticket);
}

}  // namespace

void copy_to_symbol(Symbol symbol, const void* source, std::size_t bytes, Stream& stream) {
  queue_symbol_copy("copy_to_symbol", symbol, const_cast<void*>(symbol.address), source, source, bytes, stream);
}

void copy_from_symbol(void* destination, Symbol symbol, std::size_t bytes, Stream& stream) {
  queue_symbol_copy("copy_from_symbol", symbol, destination, symbol.address, destination, bytes, stream);
}

}  // namespace emulator
