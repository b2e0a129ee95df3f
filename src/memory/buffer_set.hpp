#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/backing.hpp"

namespace isthmus::memory {

/// The buffers of one case in one placement. Phases are called in this order, each from the host thread:
/// allocate_host, (fill), allocate_device, { poison, copy_in, kernel, copy_out }*, free_device, free_host.
/// Nothing here is timed; the harness does that.
class BufferSet {
 public:
  BufferSet(Placement placement, const std::vector<BufferSpec>& specs, PlacementOptions options);
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
  /// What kernels need besides memory; nothing in most placements.
  void prepare(device::Stream& stream);
  /// Waits for the device, and ends what works for its kernels meanwhile: until then, frees of anything may wait for
  /// it. Does nothing in most placements.
  void stop() noexcept;
  void free_device(device::Stream& stream);
  void free_host();

  std::byte* host(std::size_t buffer) const;
  std::byte* device(std::size_t buffer) const;
  /// What kernels are given instead of an address; nullptr where they are given one.
  const void* view(std::size_t buffer) const;
  /// Whether copy_in() and copy_out() move the buffer, or its kernels do.
  bool copied(std::size_t buffer) const;
  /// Waits for the stream. Throws device::Error where kernels could not move their data.
  void check(device::Stream& stream);
  /// What was counted since reset(), summed over the buffers.
  std::vector<Backing::Count> counts(device::Stream& stream);

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
  /// The same for some bytes of one buffer. Throws std::out_of_range.
  std::size_t copy_in(device::Stream& stream, std::size_t buffer, Range bytes);
  std::size_t copy_out(device::Stream& stream, std::size_t buffer, Range bytes);
  /// Copies some bytes of a source to `offset` in a scratch buffer, as the placement copies in; returns how many.
  std::size_t bring(device::Stream& stream, std::size_t source, Range bytes, std::size_t to, std::size_t offset);
  /// copy_in() and copy_out() for one chunk of split buffers (placement `streamed`); buffers that are not cut travel in
  /// with the first chunk and out with the last. Chunks come in ascending order without gaps: each brings what its
  /// kernel needs and no earlier chunk has brought, so a kernel must wait for the copies of its own chunk and of all
  /// before it.
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
