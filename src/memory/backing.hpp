#pragma once

// The memory of one buffer in one placement, and how it travels. A new kind of placement is a class of this and a
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

/// What a kernel must write, and copies that are out of date, hold this until they are written (a NaN for floats).
inline constexpr std::byte kPoison{0xff};

/// Called from the host thread in this order: allocate_host, (fill), allocate_device, prepare, { reset, bring, kernels,
/// fetch }*, stop, free_device, free_host. Nothing here is timed. All but the noexcept throw device::Error.
class Backing {
 public:
  Backing(const PlacementFacts& row, BufferSpec spec, PlacementOptions options)
      : row_(row), spec_(std::move(spec)), options_(options) {}
  virtual ~Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  const BufferSpec& spec() const noexcept { return spec_; }
  /// nullptr where there is none, or not yet.
  std::byte* host() const noexcept { return host_; }
  std::byte* device() const noexcept { return device_; }
  /// Whether kernels see memory of their own, which the host reaches by copies only.
  virtual bool apart() const noexcept = 0;

  /// Bytes that it will hold.
  struct Footprint {
    std::size_t host = 0, device = 0;
  };
  virtual Footprint footprint() const noexcept = 0;

  virtual void allocate_host() = 0;
  virtual void allocate_device(device::Stream& stream) = 0;
  /// After allocate_device(): what kernels need besides memory, timed apart.
  virtual void prepare(device::Stream&) {}
  /// Ends what works for kernels meanwhile. A device that works for one buffer frees nothing of another until then.
  virtual void stop() noexcept {}
  /// Frees on `stream` what is stream-ordered; other memory needs none.
  virtual void free_device(device::Stream* stream) = 0;
  virtual void free_host() = 0;

  /// Queue, or do, what brings a part to the device before kernels, and to the host after them. Where the host itself
  /// does what comes after (Travel::blocking, host_access), the stream has come to its end before.
  virtual void bring(std::size_t offset, std::size_t bytes, device::Stream& stream) = 0;
  virtual void fetch(std::size_t offset, std::size_t bytes, device::Stream& stream) = 0;

  /// False where kernels move it themselves: bring() does nothing then, and fetch() brings what they left behind.
  virtual bool copied() const noexcept { return true; }
  /// What kernels are given instead of an address, by the placement's own type; there before any memory is.
  virtual const void* view() const noexcept { return nullptr; }
  /// Waits for the stream. Throws device::Error where kernels could not move the data.
  virtual void check(device::Stream&) {}
  /// What was counted since reset().
  struct Count {
    std::string_view name, unit;
    double value = 0;
    double needed = 0;  ///< bytes, of a count of bytes that moved
  };
  virtual std::vector<Count> counts(device::Stream&) { return {}; }

  /// Queues what puts pages and poison where a sample starts, then, once the stream has come to its end, does the
  /// host's share of it.
  virtual void reset(device::Stream& stream) = 0;
  virtual void reset_on_host() = 0;
  /// Drops the host's memory from the CPU's caches, unless it waits on the device. False where a program may not do
  /// that on this CPU.
  virtual bool flush_host_caches() const = 0;

  /// What was asked, checked against what was given, a sentence each.
  virtual std::vector<std::string> disagreements() const = 0;

 protected:
  const PlacementFacts& row_;
  const BufferSpec spec_;
  const PlacementOptions options_;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
};

/// Does it, or queues it, as a placement of two memories has its buffers travel.
void copy(Travel travel, std::byte* to, const std::byte* from, std::size_t bytes, device::Stream& stream);

/// The one that a row and a buffer's role ask for.
std::unique_ptr<Backing> make_backing(const PlacementFacts& row, const BufferSpec& spec,
                                      const PlacementOptions& options);

}  // namespace isthmus::memory
