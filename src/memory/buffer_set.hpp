#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/backing.hpp"

namespace isthmus::memory {

/// Buffers of one case in one placement. The host thread calls the members in this order: allocate_host, (fill),
/// allocate_device, { reset, copy_in, kernel, copy_out }*, free_device, free_host. None of them measures time; the
/// harness does.
class BufferSet {
 public:
  BufferSet(Placement placement, const std::vector<BufferSpec>& specs, PlacementOptions options);
  ~BufferSet();  ///< frees all remaining memory; never throws
  BufferSet(const BufferSet&) = delete;
  BufferSet& operator=(const BufferSet&) = delete;

  /// Return how many bytes of host or device memory the set uses at the same time.
  std::size_t host_bytes() const noexcept;
  std::size_t device_bytes() const noexcept;

  void allocate_host();
  /// Writes one byte into every page of every host buffer (first touch on the chosen NUMA node).
  void touch_host();
  void allocate_device(device::Stream& stream);
  /// Prepares whatever else kernels need; does nothing in most placements.
  void prepare(device::Stream& stream);
  /// Waits for the device and stops the helpers of its kernels; before that, freeing any memory may wait for these
  /// helpers. Does nothing in most placements.
  void stop() noexcept;
  void free_device(device::Stream& stream);
  void free_host();

  std::byte* host(std::size_t buffer) const;
  std::byte* device(std::size_t buffer) const;
  /// Returns the object that kernels receive instead of an address; nullptr if they receive an address.
  const void* view(std::size_t buffer) const;
  /// Returns true if copy_in() and copy_out() move the buffer, false if its kernels do.
  bool copied(std::size_t buffer) const;
  /// Waits for the stream. Throws device::Error if kernels could not move their data.
  void check(device::Stream& stream);
  /// Returns the counts since reset(), summed over the buffers.
  std::vector<Backing::Count> counts(device::Stream& stream);

  /// Restores the state in which a sample starts: overwrites outputs and stale device copies with 0xff bytes (NaN for
  /// floats) and moves managed pages of inputs back to the host. Not part of any sample.
  void reset(device::Stream& stream);

  /// Drops the host buffers from the CPU's caches, so that a copy reads and writes memory, no matter which side touched
  /// the buffers last; outputs whose pages are on the device are skipped. Returns false if a program may not flush
  /// caches on this CPU.
  bool flush_host_caches() const;

  /// Queues the copies before the kernel; blocks for `pageable`. Returns the number of bytes requested to be moved.
  std::size_t copy_in(device::Stream& stream);
  /// Queues the copies after the kernel; for `managed_in` and `managed_demand`, reads the results on the host instead.
  std::size_t copy_out(device::Stream& stream);
  /// Copy only some bytes of one buffer. They throw std::out_of_range.
  std::size_t copy_in(device::Stream& stream, std::size_t buffer, Range bytes);
  std::size_t copy_out(device::Stream& stream, std::size_t buffer, Range bytes);
  /// Copies some bytes of a source to `offset` in a scratch buffer, as the placement copies inputs; returns the number
  /// of bytes.
  std::size_t copy_in(device::Stream& stream, std::size_t source, Range bytes, std::size_t to, std::size_t offset);
  /// Copy one chunk of split buffers in or out (placement `streamed`); buffers that are not split are copied in with
  /// the first chunk and out with the last. Chunks come in ascending order without gaps. Each call copies in only the
  /// data that its kernel needs and that no earlier chunk has copied, so a kernel must wait for the copies of its own
  /// chunk and of all earlier chunks.
  std::size_t copy_in(device::Stream& stream, Range chunk, bool first);
  std::size_t copy_out(device::Stream& stream, Range chunk, bool last);

  /// Returns whether copy_in() and copy_out() may synchronise with the host (prefetches might); if so, the stream must
  /// not be blocked by a spin latch.
  bool copies_block() const noexcept;

  /// Queues writing `value` into every byte of the buffer's memory that kernels use.
  void fill(device::Stream& stream, std::size_t buffer, std::uint8_t value);
  /// Waits for the stream and copies a part of a buffer's device contents to `into`, without moving the buffer: copies
  /// from separate device memory, or reads memory that both sides share.
  void look(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into);

  /// Compares what was requested with what was allocated: pointer kind, device, NUMA node of the pages, residency. Each
  /// string is a sentence about one difference; empty if there are none.
  std::vector<std::string> disagreements() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace isthmus::memory
