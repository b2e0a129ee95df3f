#pragma once

// Placements: where a buffer lives and how it travels between CPU and GPU (docs/placements.md).
// A placement is a run-time choice; a workload sees only host() and device() of each buffer.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"

namespace isthmus::memory {

enum class Placement {
  pageable,        ///< malloc + device memory, blocking copies
  pinned,          ///< page-locked + device memory, asynchronous copies
  streamed,        ///< pinned, but in chunks over several streams beside the kernel
  pool,            ///< page-locked + stream-ordered device memory
  mapped,          ///< page-locked and mapped: the kernel reads over the link
  managed_in,      ///< managed, explicit prefetch in, page faults back (the pipelining paper's "uvm")
  managed,         ///< managed, explicit prefetch both ways
  managed_demand,  ///< managed, page faults both ways
  managed_advise,  ///< managed with read-mostly / preferred location / accessed-by, page faults
  system,          ///< malloc used by the GPU (HMM, ATS, XNACK)
  unified,         ///< one device allocation used by both sides (APU)
};

std::span<const Placement> all_placements() noexcept;
std::string_view name(Placement) noexcept;
/// nullopt for a name that is none; the caller lists the names.
std::optional<Placement> parse_placement(std::string_view) noexcept;
/// Why this device cannot do it, or nullopt.
std::optional<std::string> unsupported_reason(Placement, const device::DeviceInfo&);

/// Host and device memory are two allocations, joined by copies.
bool has_two_copies(Placement) noexcept;
bool is_managed(Placement) noexcept;
/// Whether allocate_host() is a call of the device's runtime that yields the memory of both sides (managed, unified):
/// it then belongs to the device part of the allocation time.
bool host_allocation_is_device_allocation(Placement) noexcept;

/// How data gets to the other side.
enum class Travel {
  none,          ///< not at all, or while the kernel runs: nothing is queued before or after it
  blocking,      ///< copies that return when done
  asynchronous,  ///< copies queued on a stream
  prefetch,      ///< explicit prefetch of managed pages
  host_access,   ///< the host reads the results and the system moves them (page faults)
};
Travel travel_in(Placement) noexcept;
Travel travel_out(Placement) noexcept;

/// elements * size, or std::length_error where that is more than an address can count.
std::size_t byte_count(std::size_t elements, std::size_t size);

enum class Role {
  input,    ///< travels in
  output,   ///< travels out
  inout,    ///< both ways
  scratch,  ///< stays on the device, in memory of its own whatever the placement; the host has none of it
};

/// How a buffer is cut when work goes chunk by chunk; the unit is one step of the workload's chunk dimension.
struct Split {
  std::size_t unit_bytes = 0;  ///< 0: not cut; the whole buffer is in place before the first chunk
  std::size_t halo = 0;        ///< input units needed on either side of a chunk
};

struct BufferSpec {
  std::string name;
  Role role = Role::input;
  std::size_t bytes = 0;
  Split split{};
};

struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// `units` cut into at most `chunks` ranges of nearly equal size, none of them empty.
std::vector<Range> cut(std::size_t units, std::size_t chunks);

struct PlacementOptions {
  int numa_node = -1;  ///< of host memory; -1: where the allocating thread runs
  int device = 0;
};

/// The buffers of one case in one placement. Phases are called in this order, each from the host thread:
/// allocate_host, (fill), allocate_device, { poison, copy_in, kernel, copy_out }*, free_device, free_host.
/// Nothing here is timed; the harness does that.
class BufferSet {
 public:
  BufferSet(Placement placement, std::vector<BufferSpec> specs, PlacementOptions options);
  ~BufferSet();  ///< frees what is still held; never throws
  BufferSet(const BufferSet&) = delete;
  BufferSet& operator=(const BufferSet&) = delete;

  /// Host bytes and device bytes that the set will hold at once.
  std::size_t host_bytes() const noexcept;
  std::size_t device_bytes() const noexcept;

  void allocate_host();
  /// Writes one byte into every page of every host buffer (first touch on the chosen NUMA node).
  void touch_host();
  void allocate_device(device::Stream& stream);
  void free_device(device::Stream& stream);
  void free_host();

  std::byte* host(std::size_t buffer) const;
  std::byte* device(std::size_t buffer) const;

  /// Puts pages and poison where a sample starts: outputs and stale device copies are overwritten with 0xff bytes
  /// (a NaN for floats), managed pages of inputs go back to the host. Not part of any reading.
  void reset(device::Stream& stream);

  /// Drops the host buffers from the CPU's caches, so that a copy reads and writes memory, whoever touched the buffers
  /// last; outputs that wait on the device are left there. False where a program may not do that on this CPU.
  bool flush_host_caches() const;

  /// Queues what travels before the kernel; blocking for `pageable`. Returns the bytes that the calls asked to move.
  std::size_t copy_in(device::Stream& stream);
  /// Queues what travels after it; for managed_in and managed_demand it reads the results on the host.
  std::size_t copy_out(device::Stream& stream);
  /// The same for one buffer.
  std::size_t copy_in(device::Stream& stream, std::size_t buffer);
  std::size_t copy_out(device::Stream& stream, std::size_t buffer);
  /// The same for one chunk of split buffers (placement `streamed`); buffers that are not cut travel in with the first
  /// chunk and out with the last.
  /// Chunks come in ascending order without gaps: each brings what its kernel needs and no earlier chunk has brought,
  /// so a kernel must wait for the copies of its own chunk and of all before it.
  std::size_t copy_in(device::Stream& stream, Range chunk, bool first);
  std::size_t copy_out(device::Stream& stream, Range chunk, bool last);

  /// Whether copy_in/copy_out synchronise with the host (or may: prefetches), so that no spin latch may hold the
  /// stream.
  bool copies_block() const noexcept;

  /// Queues the writing of `value` into every byte of what kernels see of a buffer.
  void fill(device::Stream& stream, std::size_t buffer, std::uint8_t value);
  /// Waits for the stream and gives the host a part of what the device has of a buffer, without making it travel: by a
  /// copy from device memory of its own, else by looking at the memory that both sides share.
  void look(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into);

  /// What was asked, checked against what was given: pointer kind, device, NUMA node of the pages, residency.
  /// Each string is one disagreement in a sentence; empty when all is as asked.
  std::vector<std::string> disagreements() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace isthmus::memory
