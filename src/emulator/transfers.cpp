// Copies and fills on the host side, and the location of managed memory.

#include <algorithm>
#include <cstring>

#include "emulator/device.hpp"
#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"
#include "emulator/format.hpp"
#include "emulator/grid.hpp"
#include "emulator/memory.hpp"
#include "emulator/paging.hpp"
#include "emulator/stream.hpp"

namespace emulator {
namespace {

/// Address ranges of a copy's source and destination.
struct Ends {
  void* destination;
  std::size_t destination_bytes;
  const void* source;
  std::size_t source_bytes;
};

std::optional<std::string> problem_of(const Ends& ends, bool now) {
  Memory& memory = Memory::instance();
  if (auto problem = memory.range_problem(ends.destination, ends.destination_bytes, now)) {
    return "destination: " + *problem;
  }
  if (auto problem = memory.range_problem(ends.source, ends.source_bytes, now)) return "source: " + *problem;
  return std::nullopt;
}

std::optional<std::string> problem_of(const std::vector<Ends>& copies, bool now) {
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (copies[i].source_bytes == 0) continue;
    if (auto problem = problem_of(copies[i], now)) {
      return copies.size() == 1 ? *problem : sentence("item {}: {}", i, *problem);
    }
  }
  return std::nullopt;
}

FaultPointer queued_fault(const char* what, const std::string& problem) {
  return make_fault(ErrorKind::failure, sentence("a queued {} failed ({})", what, problem),
                    "order the streams with an event");
}

/// Queues copies, which are checked immediately and a second time when the stream reaches them; `move` performs all of
/// them.
void queue_copies(const char* call, const std::vector<Ends>& copies, Stream& stream, std::function<void()> move) {
  Memory& memory = Memory::for_caller();
  if (auto problem = problem_of(copies, false)) {
    throw Error(ErrorKind::failure, call, *problem, "pass whole live allocations");
  }
  const bool pageable = std::any_of(copies.begin(), copies.end(), [&](const Ends& ends) {
    return ends.source_bytes != 0 && (memory.is_pageable(ends.destination) || memory.is_pageable(ends.source));
  });
  StreamState& state = stream.state();
  if (pageable) outside_capture(stream, call);
  const std::uint64_t ticket = state.submit([copies, move = std::move(move)](const FaultPointer&) -> FaultPointer {
    if (auto problem = problem_of(copies, true)) return queued_fault("copy", *problem);
    const DeviceAccess access;
    for (const Ends& ends : copies) {
      access.expect(ends.destination);
      access.expect(ends.source);
    }
    move();
    return nullptr;
  });
  // Pageable memory is copied through a staging buffer, and the call returns afterwards.
  if (pageable) state.wait(ticket);
}

}  // namespace

// Runs on the calling thread without any order with respect to streams, because streams do not synchronise with a
// default stream.
void copy(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  Memory::for_caller();
  if (auto problem = problem_of(Ends{destination, bytes, source, bytes}, true)) {
    throw Error(ErrorKind::failure, "copy", *problem, "pass whole live allocations");
  }
  const DeviceAccess access;
  access.expect(destination);
  access.expect(source);
  std::memmove(destination, source, bytes);
}

void copy_async(void* destination, const void* source, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  queue_copies("copy_async", {{destination, bytes, source, bytes}}, stream,
               [=] { std::memmove(destination, source, bytes); });
}

void copy_strided_async(void* destination, const void* source, const StridedCopy& shape, Stream& stream) {
  if (shape.row_bytes == 0 || shape.rows == 0 || shape.planes == 0) return;
  const auto bytes = [&](std::size_t pitch, std::size_t rows) {
    return ((shape.planes - 1) * rows + shape.rows - 1) * pitch + shape.row_bytes;
  };
  const Ends ends{destination, bytes(shape.destination_pitch, shape.destination_rows), source,
                  bytes(shape.source_pitch, shape.source_rows)};
  queue_copies("copy_strided_async", {ends}, stream, [=] {
    for (std::size_t plane = 0; plane < shape.planes; ++plane) {
      for (std::size_t row = 0; row < shape.rows; ++row) {
        std::memmove(static_cast<char*>(destination) + (plane * shape.destination_rows + row) * shape.destination_pitch,
                     static_cast<const char*>(source) + (plane * shape.source_rows + row) * shape.source_pitch,
                     shape.row_bytes);
      }
    }
  });
}

// Copies one item after another, beginning with the last unless the order is natural, so that dependences within a
// batch become visible.
void copy_batch_async(std::span<const CopyItem> items, Stream& stream) {
  std::vector<Ends> copies;
  // Items of 0 bytes are kept, so that the other items keep their numbers in errors.
  for (const auto& [destination, source, bytes] : items) copies.push_back({destination, bytes, source, bytes});
  if (copies.empty()) return;
  outside_capture(stream, "copy_batch_async");
  const bool backwards = configuration().order != Order::natural;
  queue_copies("copy_batch_async", copies, stream, [copies, backwards] {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const Ends& ends = copies[backwards ? copies.size() - 1 - i : i];
      if (ends.source_bytes != 0) std::memmove(ends.destination, ends.source, ends.source_bytes);
    }
  });
}

void fill_async(void* pointer, std::uint8_t value, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  std::optional<std::string> problem = Memory::for_caller().range_problem(pointer, bytes, false);
  if (!problem && Memory::instance().is_pageable(pointer)) problem = "the pointer points to pageable host memory";
  if (problem) throw Error(ErrorKind::failure, "fill_async", *problem, "pass live device memory");
  stream.state().submit([=](const FaultPointer&) -> FaultPointer {
    if (auto late = Memory::instance().range_problem(pointer, bytes, true)) return queued_fault("fill", *late);
    const DeviceAccess access;
    access.expect(pointer);
    std::memset(pointer, value, bytes);
    return nullptr;
  });
}

void write_values_async(std::span<const ValueWrite> writes, Stream& stream) {
  Memory& memory = Memory::for_caller();
  for (std::size_t i = 0; i < writes.size(); ++i) {
    std::uint32_t* word = writes[i].word;
    std::optional<std::string> problem = memory.range_problem(word, sizeof *word, false);
    if (!problem && memory.is_pageable(word)) problem = "the pointer points to pageable host memory";
    if (const auto found = memory.find(word); !problem && found && found->kind == AllocationKind::managed)
      problem = "the pointer points to managed memory, to which CUDA streams cannot write words";
    if (!problem && reinterpret_cast<std::uintptr_t>(word) % sizeof *word != 0) problem = "the word is not aligned";
    if (problem)
      throw Error(ErrorKind::failure, "write_values_async", sentence("item {}: {}", i, *problem),
                  "pass words of live device memory or mapped memory");
  }
  StreamState& state = outside_capture(stream, "write_values_async");
  state.submit([all = std::vector(writes.begin(), writes.end())](const FaultPointer&) -> FaultPointer {
    for (const auto& [word, value] : all) {
      if (auto late = Memory::instance().range_problem(word, sizeof *word, true))
        return queued_fault("write of a value", *late);
      const DeviceAccess access;
      access.expect(word);
      __atomic_store_n(word, value, __ATOMIC_RELEASE);
    }
    return nullptr;
  });
}

// --- managed memory --------------------------------------------------------------------------------

namespace {

void require_managed(std::span<const MemoryRange> ranges, const char* call) {
  Memory& memory = Memory::for_caller();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto found = memory.find(ranges[i].pointer);
    std::optional<std::string> problem = memory.range_problem(ranges[i].pointer, ranges[i].bytes, false);
    if (!problem && (!found || found->kind != AllocationKind::managed)) {
      problem = "the pointer does not point to managed memory";
    }
    if (!problem) continue;
    throw Error(ErrorKind::failure, call, ranges.size() == 1 ? *problem : sentence("item {}: {}", i, *problem),
                "pass memory of malloc_managed");
  }
}

void require_managed(const void* pointer, std::size_t bytes, const char* call) {
  const MemoryRange range{const_cast<void*>(pointer), bytes};
  require_managed({&range, 1}, call);
}

void require_location(Location location, const char* call) {
  if (location.device >= 0) require_device(location.device, call);
}

/// Poisons discarded memory when the stream reaches this point; the prefetch destination is recorded immediately, as in
/// prefetch().
void discard_then_prefetch(std::span<const MemoryRange> ranges, bool discards, const Location* to, const char* call,
                           Stream& stream) {
  need(configuration().concurrent_managed, call, "concurrent managed access");
  if (to != nullptr) require_location(*to, call);
  require_managed(ranges, call);
  StreamState& state = outside_capture(stream, call);
  if (to != nullptr) {
    for (const auto& [pointer, bytes] : ranges) Memory::instance().set_prefetched(pointer, bytes, to->device);
  }
  std::vector<MemoryRange> all(ranges.begin(), ranges.end());
  state.submit([all = std::move(all), discards,
                where = to != nullptr ? std::optional(to->device) : std::nullopt](const FaultPointer&) -> FaultPointer {
    if (discards) {
      const DeviceAccess access;
      for (const auto& [pointer, bytes] : all) {
        if (auto late = Memory::instance().range_problem(pointer, bytes, true)) return queued_fault("discard", *late);
        std::memset(pointer, poison_byte(configuration().poison), bytes);
      }
    }
    if (where) {
      for (const auto& [pointer, bytes] : all) Paging::instance().move(pointer, bytes, *where);
    }
    return nullptr;
  });
}

}  // namespace

void prefetch(void* pointer, std::size_t bytes, Location to, Stream& stream) {
  const MemoryRange range{pointer, bytes};
  discard_then_prefetch({&range, 1}, false, &to, "prefetch", stream);
}

void prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream) {
  discard_then_prefetch(ranges, false, &to, "prefetch_batch", stream);
}

void discard_batch(std::span<const MemoryRange> ranges, Stream& stream) {
  discard_then_prefetch(ranges, true, nullptr, "discard_batch", stream);
}

void discard_and_prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream) {
  discard_then_prefetch(ranges, true, &to, "discard_and_prefetch_batch", stream);
}

void advise(void* pointer, std::size_t bytes, Location location) {
  need(configuration().concurrent_managed, "advise", "concurrent managed access");
  require_location(location, "advise");
  require_managed(pointer, bytes, "advise");
}

std::optional<int> last_prefetch(const void* pointer, std::size_t bytes) {
  require_managed(pointer, bytes, "last_prefetch");
  return Memory::instance().last_prefetch(pointer, bytes);
}

}  // namespace emulator
