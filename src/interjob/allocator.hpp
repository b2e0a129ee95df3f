#pragma once

#include <cstdint>

#include "interjob/batch.hpp"

namespace isthmus::interjob {

/// Role that allocates the memory of jobs, in the order of the jobs. Several Allocators may share the jobs of a batch.
class Allocator {
 public:
  /// Makes an Allocator; with `early`, a job may be queued as soon as its first phase has its chunks, while other
  /// chunks are still being mapped.
  Allocator(Batch& batch, device::Stream& stream, bool early) : batch_(batch), stream_(stream), early_(early) {}

  /// Runs until all jobs have been allocated.
  void run();
  /// Moves a job from `waiting` to `ready`, or to `done` with the failure. The lock is held on entry and on return.
  void allocate(Entry& entry, Batch::Lock& lock);

 private:
  void take(Entry& entry, Batch::Lock& lock);
  std::exception_ptr fill(Entry& entry, std::vector<void*>& handed_on);
  void grow(Entry& entry, Phase needed, Batch::Lock& lock);
  bool make_room(Entry& entry, std::uint64_t seen, Batch::Lock& lock);

  Batch& batch_;
  device::Stream& stream_;
  bool early_;
};

}  // namespace isthmus::interjob
