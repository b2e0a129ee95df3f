#include "trace/uvm/events.hpp"

#include <cstring>
#include <type_traits>

namespace isthmus::trace::uvm {

static_assert(offsetof(CpuFault, cpu) == 4 && offsetof(CpuFault, address) == 8 && offsetof(CpuFault, time) == 16 &&
              offsetof(CpuFault, process) == 24 && offsetof(CpuFault, thread) == 28 &&
              offsetof(CpuFault, instruction) == 32);
static_assert(offsetof(Migration, source) == 2 && offsetof(Migration, destination) == 3 &&
              offsetof(Migration, address) == 8 && offsetof(Migration, bytes) == 16 &&
              offsetof(Migration, begin) == 24 && offsetof(Migration, end) == 32 &&
              offsetof(Migration, range_group) == 40 && offsetof(Migration, gpu_begin) == 48 &&
              offsetof(Migration, gpu_end) == 56);
static_assert(offsetof(GpuFault, kind) == 1 && offsetof(GpuFault, access) == 2 && offsetof(GpuFault, gpu) == 3 &&
              offsetof(GpuFault, gpc) == 4 && offsetof(GpuFault, client) == 6 && offsetof(GpuFault, address) == 8 &&
              offsetof(GpuFault, time) == 16 && offsetof(GpuFault, gpu_time) == 24 && offsetof(GpuFault, batch) == 32 &&
              offsetof(GpuFault, client_kind) == 36);
static_assert(offsetof(Replay, gpu) == 1 && offsetof(Replay, client_kind) == 2 && offsetof(Replay, batch) == 4 &&
              offsetof(Replay, time) == 8 && offsetof(Replay, gpu_time) == 16);
static_assert(offsetof(FatalFault, processor) == 3 && offsetof(FatalFault, reason) == 4 &&
              offsetof(FatalFault, address) == 8 && offsetof(FatalFault, time) == 16);
static_assert(offsetof(ReadDuplicate, processors) == 8 && offsetof(ReadDuplicate, time) == 32);
static_assert(offsetof(ReadDuplicateEnd, address) == 8 && offsetof(ReadDuplicateEnd, time) == 24);
static_assert(offsetof(Thrashing, processors) == 8 && offsetof(Thrashing, address) == 16 &&
              offsetof(Thrashing, bytes) == 24 && offsetof(Thrashing, time) == 32);
static_assert(offsetof(Throttling, address) == 8 && offsetof(Throttling, time) == 16);
static_assert(offsetof(RemoteMap, cause) == 3 && offsetof(RemoteMap, bytes) == 16 && offsetof(RemoteMap, time) == 24 &&
              offsetof(RemoteMap, gpu_time) == 32);

namespace {

template <class T>
Event as(std::span<const std::byte, kEntryBytes> entry) noexcept {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kEntryBytes);
  T event;
  std::memcpy(static_cast<void*>(&event), entry.data(), sizeof event);
  return event;
}

}  // namespace

Event decode(std::span<const std::byte, kEntryBytes> entry) noexcept {
  switch (static_cast<Type>(entry[0])) {
    case Type::cpu_fault:
      return as<CpuFault>(entry);
    case Type::migration:
      return as<Migration>(entry);
    case Type::gpu_fault:
      return as<GpuFault>(entry);
    case Type::replay:
      return as<Replay>(entry);
    case Type::fatal_fault:
      return as<FatalFault>(entry);
    case Type::read_duplicate:
      return as<ReadDuplicate>(entry);
    case Type::read_duplicate_end:
      return as<ReadDuplicateEnd>(entry);
    case Type::thrashing:
      return as<Thrashing>(entry);
    case Type::throttling_start:
    case Type::throttling_end:
      return as<Throttling>(entry);
    case Type::remote_map:
      return as<RemoteMap>(entry);
    case Type::fault_buffer_overflow:
    case Type::page_size_change:
    case Type::eviction:
      break;
  }
  return as<Other>(entry);
}

Entry encode(const Event& event) noexcept {
  Entry entry{};
  std::visit([&](const auto& known) { std::memcpy(entry.data(), &known, sizeof known); }, event);
  return entry;
}

}  // namespace isthmus::trace::uvm
