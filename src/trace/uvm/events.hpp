#pragma once

// The events of the NVIDIA driver's queue (docs/uvm.md), as they lie in memory: 64 bytes each, version 1, the same in
// driver branches 515 to 595. Definitions of our own; the numbers are the driver's interface.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace isthmus::trace::uvm {

static_assert(std::endian::native == std::endian::little, "the driver's entries are little-endian");

inline constexpr std::size_t kEntryBytes = 64;
using Entry = std::array<std::byte, kEntryBytes>;

/// A fault is of a page; the driver services the faults of a batch by the block in which they lie.
inline constexpr std::uint64_t kPageBytes = 4096, kBlockBytes = std::uint64_t{2} << 20;

/// The first byte of an entry. Types 5, 9 and 14 are declared by the driver and never sent.
enum class Type : std::uint8_t {
  cpu_fault = 1,
  migration = 2,
  gpu_fault = 3,
  replay = 4,
  fault_buffer_overflow = 5,
  fatal_fault = 6,
  read_duplicate = 7,
  read_duplicate_end = 8,
  page_size_change = 9,
  thrashing = 10,
  throttling_start = 11,
  throttling_end = 12,
  remote_map = 13,
  eviction = 14,
};

/// Why memory moved.
enum class Cause : std::uint8_t { user = 1, fault = 2, prefetch = 3, eviction = 4, access_counter = 5 };

/// Who asks for a page: an SM, whose faults are replayed, or a copy engine, whose channel starts again.
enum class Client : std::uint8_t { none = 0, gpc = 1, hub = 2 };

// Times are nanoseconds: `time` of CLOCK_MONOTONIC_RAW, `gpu_time` of the GPU's global timer.

struct CpuFault {
  Type type = Type::cpu_fault;
  std::uint8_t access = 0;
  std::uint16_t unused = 0;
  std::uint32_t cpu = 0;
  std::uint64_t address = 0, time = 0;
  std::uint32_t process = 0, thread = 0;
  std::uint64_t instruction = 0;
  bool operator==(const CpuFault&) const = default;
};

struct Migration {
  Type type = Type::migration;
  Cause cause = Cause::fault;
  std::uint8_t source = 0, destination = 0;  ///< processors; 0 is the CPU
  std::uint32_t unused = 0;
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t begin = 0, end = 0;  ///< queued, and told to the CPU; `end` is 0 where nobody waited for it
  std::uint64_t range_group = 0;
  std::uint64_t gpu_begin = 0, gpu_end = 0;
  bool operator==(const Migration&) const = default;
};

struct GpuFault {
  Type type = Type::gpu_fault;
  std::uint8_t kind = 0, access = 0, gpu = 0;
  std::uint16_t gpc = 0, client = 0;
  std::uint64_t address = 0;
  std::uint64_t time = 0;      ///< the CPU took it up
  std::uint64_t gpu_time = 0;  ///< the GPU wrote it into its fault buffer
  std::uint32_t batch = 0;     ///< counts by itself for each GPU and each kind of client
  Client client_kind = Client::gpc;
  std::uint8_t unused = 0;
  std::uint16_t unused_too = 0;
  bool operator==(const GpuFault&) const = default;
};

struct Replay {
  Type type = Type::replay;
  std::uint8_t gpu = 0;
  Client client_kind = Client::gpc;
  std::uint8_t unused = 0;
  std::uint32_t batch = 0;
  std::uint64_t time = 0, gpu_time = 0;
  bool operator==(const Replay&) const = default;
};

struct FatalFault {
  Type type = Type::fatal_fault;
  std::uint8_t kind = 0, access = 0, processor = 0, reason = 0;
  std::uint8_t unused = 0;
  std::uint16_t unused_too = 0;
  std::uint64_t address = 0, time = 0;
  bool operator==(const FatalFault&) const = default;
};

struct ReadDuplicate {
  Type type = Type::read_duplicate;
  std::uint8_t unused = 0;
  std::uint16_t unused_too = 0;
  std::uint32_t unused_as_well = 0;
  std::uint64_t processors = 0, address = 0, bytes = 0, time = 0;
  bool operator==(const ReadDuplicate&) const = default;
};

struct ReadDuplicateEnd {
  Type type = Type::read_duplicate_end;
  std::uint8_t resident = 0;
  std::uint16_t unused = 0;
  std::uint32_t unused_too = 0;
  std::uint64_t address = 0, bytes = 0, time = 0;
  bool operator==(const ReadDuplicateEnd&) const = default;
};

struct Thrashing {
  Type type = Type::thrashing;
  std::uint8_t unused = 0;
  std::uint16_t unused_too = 0;
  std::uint32_t unused_as_well = 0;
  std::uint64_t processors = 0, address = 0, bytes = 0, time = 0;
  bool operator==(const Thrashing&) const = default;
};

/// One begins, another ends: two types of one form.
struct Throttling {
  Type type = Type::throttling_start;
  std::uint8_t processor = 0;
  std::uint16_t unused = 0;
  std::uint32_t unused_too = 0;
  std::uint64_t address = 0, time = 0;
  bool operator==(const Throttling&) const = default;
};

struct RemoteMap {
  Type type = Type::remote_map;
  std::uint8_t source = 0, destination = 0, cause = 0;
  std::uint32_t unused = 0;
  std::uint64_t address = 0, bytes = 0, time = 0, gpu_time = 0;
  bool operator==(const RemoteMap&) const = default;
};

/// Of a type that nobody sends, or that a later driver added: counted, not looked into.
struct Other {
  std::uint8_t type = 0;
  bool operator==(const Other&) const = default;
};

using Event = std::variant<CpuFault, Migration, GpuFault, Replay, FatalFault, ReadDuplicate, ReadDuplicateEnd,
                           Thrashing, Throttling, RemoteMap, Other>;

/// Never fails: whatever the bytes are, they are some event.
Event decode(std::span<const std::byte, kEntryBytes> entry) noexcept;
/// The bytes of an event, as the driver would write them; what it does not fill is zero.
Entry encode(const Event& event) noexcept;

}  // namespace isthmus::trace::uvm
