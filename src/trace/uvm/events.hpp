#pragma once

// Events of the NVIDIA driver's queue (docs/uvm.md) in their memory layout: 64 bytes each, version 1, the same in
// driver branches 515 to 595. The definitions are our own; the numbers are the driver's interface.

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

/// Size of a page, the unit of page faults, and of a block, the unit in which the driver services the page faults of a
/// batch.
inline constexpr std::uint64_t kPageBytes = 4096, kBlockBytes = std::uint64_t{2} << 20;

/// First byte of an entry. The driver declares types 5, 9 and 14 but never sends them.
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

/// Reason why memory moved.
enum class Cause : std::uint8_t { user = 1, fault = 2, prefetch = 3, eviction = 4, access_counter = 5 };

/// Unit that requests a page: an SM (gpc), whose page faults are replayed, or a copy engine (hub), whose channel is
/// restarted.
enum class Client : std::uint8_t { none = 0, gpc = 1, hub = 2 };

// Times are in nanoseconds: `time` on CLOCK_MONOTONIC_RAW, `gpu_time` on the GPU's global timer.

struct CpuFault {
  Type type = Type::cpu_fault;
  std::uint8_t access = 0;
  std::uint16_t reserved0 = 0;
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
  std::uint32_t reserved0 = 0;
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t begin = 0, end = 0;  ///< times when it was queued and when its end was reported to the CPU; `end` is 0
                                     ///< if nothing waited for it
  std::uint64_t range_group = 0;
  std::uint64_t gpu_begin = 0, gpu_end = 0;
  bool operator==(const Migration&) const = default;
};

struct GpuFault {
  Type type = Type::gpu_fault;
  std::uint8_t kind = 0, access = 0, gpu = 0;
  std::uint16_t gpc = 0, client = 0;
  std::uint64_t address = 0;
  std::uint64_t time = 0;      ///< time when the CPU handled the page fault
  std::uint64_t gpu_time = 0;  ///< time when the GPU wrote the page fault into its fault buffer
  std::uint32_t batch = 0;     ///< number of the batch, counted separately for each GPU and each kind of client
  Client client_kind = Client::gpc;
  std::uint8_t reserved0 = 0;
  std::uint16_t reserved1 = 0;
  bool operator==(const GpuFault&) const = default;
};

struct Replay {
  Type type = Type::replay;
  std::uint8_t gpu = 0;
  Client client_kind = Client::gpc;
  std::uint8_t reserved0 = 0;
  std::uint32_t batch = 0;
  std::uint64_t time = 0, gpu_time = 0;
  bool operator==(const Replay&) const = default;
};

struct FatalFault {
  Type type = Type::fatal_fault;
  std::uint8_t kind = 0, access = 0, processor = 0, reason = 0;
  std::uint8_t reserved0 = 0;
  std::uint16_t reserved1 = 0;
  std::uint64_t address = 0, time = 0;
  bool operator==(const FatalFault&) const = default;
};

struct ReadDuplicate {
  Type type = Type::read_duplicate;
  std::uint8_t reserved0 = 0;
  std::uint16_t reserved1 = 0;
  std::uint32_t reserved2 = 0;
  std::uint64_t processors = 0, address = 0, bytes = 0, time = 0;
  bool operator==(const ReadDuplicate&) const = default;
};

struct ReadDuplicateEnd {
  Type type = Type::read_duplicate_end;
  std::uint8_t resident = 0;
  std::uint16_t reserved0 = 0;
  std::uint32_t reserved1 = 0;
  std::uint64_t address = 0, bytes = 0, time = 0;
  bool operator==(const ReadDuplicateEnd&) const = default;
};

struct Thrashing {
  Type type = Type::thrashing;
  std::uint8_t reserved0 = 0;
  std::uint16_t reserved1 = 0;
  std::uint32_t reserved2 = 0;
  std::uint64_t processors = 0, address = 0, bytes = 0, time = 0;
  bool operator==(const Thrashing&) const = default;
};

/// Start or end of throttling: two types with the same layout.
struct Throttling {
  Type type = Type::throttling_start;
  std::uint8_t processor = 0;
  std::uint16_t reserved0 = 0;
  std::uint32_t reserved1 = 0;
  std::uint64_t address = 0, time = 0;
  bool operator==(const Throttling&) const = default;
};

struct RemoteMap {
  Type type = Type::remote_map;
  std::uint8_t source = 0, destination = 0, cause = 0;
  std::uint32_t reserved0 = 0;
  std::uint64_t address = 0, bytes = 0, time = 0, gpu_time = 0;
  bool operator==(const RemoteMap&) const = default;
};

/// Event of a type that is never sent, or that a later driver added; it is counted but not decoded.
struct Other {
  std::uint8_t type = 0;
  bool operator==(const Other&) const = default;
};

using Event = std::variant<CpuFault, Migration, GpuFault, Replay, FatalFault, ReadDuplicate, ReadDuplicateEnd,
                           Thrashing, Throttling, RemoteMap, Other>;

/// Decodes an entry. Never fails: all possible bytes decode to some event.
Event decode(std::span<const std::byte, kEntryBytes> entry) noexcept;
/// Returns the bytes of an event as the driver would write them; unused bytes are zero.
Entry encode(const Event& event) noexcept;

}  // namespace isthmus::trace::uvm
