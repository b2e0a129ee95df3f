#pragma once

#include <cstdint>

#include "interjob/batch.hpp"

namespace isthmus::interjob {

/// Gives jobs their memory, in the order of the jobs. Several may share the jobs of a batch.
class Allocator {
 public:
  /// `early`: a job whose first phase has its chunks may be queued while the others are still mapped.
  Allocator(Batch& batch, device::Stream& stream, bool early) : batch_(batch), stream_(stream), early_(early) {}

  /// Until all jobs are past it.
  void run();
  /// From `waiting` to `ready`, or to `done` with the failure. The lock is held before and after.
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
