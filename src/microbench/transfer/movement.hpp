#pragma once

// Movement of bytes between two ends by one method, with its memory, the work that it queues, and the check of its
// result.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "microbench/transfer/block.hpp"
#include "microbench/transfer/kernels.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::transfer {

/// Settings of a case, from its axes.
struct Settings {
  std::size_t bytes = 0;
  std::uint64_t seed = 0;
  memory::BlockOptions host{};
  CopyGeometry geometry{};
  std::size_t row_bytes = 512, planes = 1;  ///< rows of a box follow from `bytes`; the pitch is twice the row
  std::size_t pieces = 64;                  ///< copies in a batch
  unsigned threads = 1;                     ///< host threads for page faults or memcpy; 0 for all
  Touch touch = Touch::whole;
  bool far_issues = false;  ///< the copy is queued on the destination's GPU
};

class Movement {
 public:
  virtual ~Movement() = default;

  const End from, to;
  const std::size_t moved;  ///< bytes that are moved
  /// Returns whether bytes cross a link. Discarded pages move without their bytes.
  virtual bool crosses_link() const { return true; }

  /// Returns the bytes of `moved` that a program requests.
  virtual std::size_t needed() const { return moved; }
  virtual workload::Lane lane() = 0;
  /// Restores the state from which a movement starts. Not timed.
  virtual void reset() {}
  /// Returns whether a second movement without reset() moves the bytes again.
  virtual bool repeats() const { return true; }
  /// Flushes the movement's host memory from the CPU's caches. Returns false if a program cannot do that on this CPU.
  virtual bool flush() const { return true; }
  /// Poisons the destination, moves the bytes once more, and returns the number of wrong bytes.
  virtual std::size_t check() = 0;
  virtual std::vector<std::string> disagreements() const { return {}; }
  /// Returns the share of the pages that moved in the last movement; nullopt if unknown.
  virtual std::optional<double> left() const { return std::nullopt; }
  /// Returns whether pages are expected to move.
  virtual bool moves_pages() const { return false; }
  /// Returns the launch to record; nullopt if there is no kernel worth recording.
  virtual std::optional<DescribedLaunch> kernel() const { return std::nullopt; }

 protected:
  Movement(End from_, End to_, std::size_t moved_) : from(from_), to(to_), moved(moved_) {}
};

/// Memory of both ends together, known before anything is allocated.
struct EndBytes {
  std::size_t host = 0, device = 0;  ///< `device`: maximum over the GPUs
};
EndBytes footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);

/// Allocates both ends and fills the source. `number` distinguishes simultaneous movements. Throws workload::Skip for
/// settings that make no sense (such as a size that cannot be divided evenly), and device::Error (unsupported) for
/// methods that the device does not support.
std::unique_ptr<Movement> make_movement(const End& from, const End& to, Initiator initiator, const Settings& settings,
                                        unsigned number);

/// Returns the footprint of a copy. footprint() and make_movement() call this and the following functions, which are
/// for copies and for movements of pages.
EndBytes copy_footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);
std::unique_ptr<Movement> make_copy_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number);

EndBytes page_footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);
std::unique_ptr<Movement> make_page_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number);

/// Declares the check of all movements of a case. The movements must outlive the case's measurements.
void verify(workload::Case& c, const std::vector<std::unique_ptr<Movement>>& movements);

}  // namespace isthmus::microbench::transfer
