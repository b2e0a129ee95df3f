#pragma once

// One way of moving bytes between two ends: what it holds, what it queues, and how its result is checked.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "microbench/transfer/block.hpp"
#include "microbench/transfer/kernels.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::transfer {

/// The axes of a case.
struct Settings {
  std::size_t bytes = 0;
  std::uint64_t seed = 0;
  memory::BlockOptions host{};
  CopyGeometry geometry{};
  std::size_t row_bytes = 512, planes = 1;  ///< of a box; rows follow from `bytes`, the pitch is twice the row
  std::size_t pieces = 64;                  ///< of a batch
  unsigned threads = 1;                     ///< of the host: page faults, memcpy; 0: all
  Touch touch = Touch::whole;               ///< how pages are asked for
  bool far_issues = false;                  ///< the copy is queued on the destination's GPU
};

class Movement {
 public:
  virtual ~Movement() = default;

  const End from, to;
  const std::size_t moved;  ///< bytes that change place
  /// Whether bytes cross a link: discarded pages come without theirs.
  virtual bool crosses_link() const { return true; }

  /// What a program asks for of them.
  virtual std::size_t needed() const { return moved; }
  virtual workload::Lane lane() = 0;
  /// Puts everything where a movement starts. Not timed.
  virtual void reset() {}
  /// Whether a second movement without a reset() moves anything.
  virtual bool repeats() const { return true; }
  /// Drops its host memory from the CPU's caches; false where a program may not do that on this CPU.
  virtual bool flush() const { return true; }
  /// Poisons the far end, moves once more and compares: bytes that are wrong.
  virtual std::size_t check() = 0;
  virtual std::vector<std::string> disagreements() const { return {}; }
  /// Share of the pages that left their place in the last movement; nullopt where unknown.
  virtual std::optional<double> left() const { return std::nullopt; }
  /// Whether they should have.
  virtual bool moves_pages() const { return false; }
  /// What was launched, for the record; nullopt without a kernel of note.
  virtual std::optional<DescribedLaunch> kernel() const { return std::nullopt; }

 protected:
  Movement(End from_, End to_, std::size_t moved_) : from(from_), to(to_), moved(moved_) {}
};

/// What the two ends hold at once, before anything is allocated.
struct EndBytes {
  std::size_t host = 0, device = 0;  ///< device: on the GPU that holds most
};
EndBytes footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);

/// Allocates both ends and fills the source. `number` tells apart movements that run at once. Throws workload::Skip for
/// what means nothing (a size that does not divide), device::Error (unsupported) for what the device cannot do.
std::unique_ptr<Movement> make_movement(const End& from, const End& to, Initiator initiator, const Settings& settings,
                                        unsigned number);

/// The two kinds of movement that these choose from.
EndBytes copy_footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);
std::unique_ptr<Movement> make_copy_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number);

EndBytes page_footprint(const End& from, const End& to, Initiator initiator, const Settings& settings);
std::unique_ptr<Movement> make_page_movement(const End& from, const End& to, Initiator initiator,
                                             const Settings& settings, unsigned number);

/// Declares the check of all movements of a case, which must be there for as long as it measures.
void verify(workload::Case& c, const std::vector<std::unique_ptr<Movement>>& movements);

}  // namespace isthmus::microbench::transfer
