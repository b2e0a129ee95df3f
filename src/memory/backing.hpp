#pragma once

// Memory of one buffer in one placement, and how it is copied. A new kind of placement is a subclass of this and a
// PlacementRegistration.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/block.hpp"
#include "memory/placement.hpp"

namespace isthmus::memory {

/// Byte written into memory that a kernel must write and into copies that are out of date (NaN for floats).
inline constexpr std::byte kPoison{0xff};

/// Memory of one buffer. The host thread calls the members in this order: allocate_host, (fill), allocate_device,
/// prepare, { reset, copy_in, kernels, copy_out }*, stop, free_device, free_host. None of them measures time. All
/// members that are not noexcept throw device::Error.
class Backing {
 public:
  Backing(const PlacementFacts& row, BufferSpec spec, PlacementOptions options)
      : row_(row), spec_(std::move(spec)), options_(options) {}
  virtual ~Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  const BufferSpec& spec() const noexcept { return spec_; }
  /// Return the memory's address; nullptr if that memory does not exist or is not allocated yet.
  std::byte* host() const noexcept { return host_; }
  std::byte* device() const noexcept { return device_; }
  /// Returns whether kernels have separate memory, which the host reaches only by copies.
  virtual bool apart() const noexcept = 0;

  /// Bytes that the backing will allocate.
  struct Footprint {
    std::size_t host = 0, device = 0;
  };
  virtual Footprint footprint() const noexcept = 0;

  virtual void allocate_host() = 0;
  virtual void allocate_device(device::Stream& stream) = 0;
  /// Prepares whatever else kernels need, after allocate_device(); it is timed separately.
  virtual void prepare(device::Stream&) {}
  /// Stops the helpers that work for kernels. Call it for all buffers of a device before freeing memory of any of them.
  virtual void stop() noexcept {}
  /// Frees stream-ordered memory on `stream`; other memory needs no stream.
  virtual void free_device(device::Stream* stream) = 0;
  virtual void free_host() = 0;

  /// Queue or perform the copy of part of the buffer: copy_in() to the device before kernels run, copy_out() to the
  /// host afterwards. The caller must have synchronised the stream if the host waits for the copy (Travel::blocking) or
  /// reads the data itself (host_access).
  virtual void copy_in(std::size_t offset, std::size_t bytes, device::Stream& stream) = 0;
  virtual void copy_out(std::size_t offset, std::size_t bytes, device::Stream& stream) = 0;

  /// Returns false if kernels move the data themselves: copy_in() then does nothing, and copy_out() copies only what
  /// the kernels have not yet written back.
  virtual bool copied() const noexcept { return true; }
  /// Returns the object that kernels receive instead of an address; its type depends on the placement. It exists before
  /// any memory is allocated.
  virtual const void* view() const noexcept { return nullptr; }
  /// Waits for the stream. Throws device::Error if kernels could not move the data.
  virtual void check(device::Stream&) {}
  /// One quantity counted since reset().
  struct Count {
    std::string_view name, unit;
    double value = 0;
    double needed = 0;  ///< number of bytes that were needed, if the quantity is bytes moved
  };
  virtual std::vector<Count> counts(device::Stream&) { return {}; }

  /// Queues the work that restores the state in which a sample starts (location of pages, poison); reset_on_host() then
  /// does the host's part, after the stream has been synchronised.
  virtual void reset(device::Stream& stream) = 0;
  virtual void reset_on_host() = 0;
  /// Drops the host memory from the CPU's caches, unless its pages are on the device. Returns false if a program may
  /// not flush caches on this CPU.
  virtual bool flush_host_caches() const = 0;

  /// Compares the memory that was requested with what was allocated; returns one sentence for each difference.
  virtual std::vector<std::string> disagreements() const = 0;

 protected:
  const PlacementFacts& row_;
  const BufferSpec spec_;
  const PlacementOptions options_;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
};

/// Performs or queues a copy, as placements with two memories copy their buffers.
void copy(Travel travel, std::byte* to, const std::byte* from, std::size_t bytes, device::Stream& stream);

/// Makes the backing for a buffer's role in a placement.
std::unique_ptr<Backing> make_backing(const PlacementFacts& row, const BufferSpec& spec,
                                      const PlacementOptions& options);

}  // namespace isthmus::memory
