#pragma once

#include "interjob/batch.hpp"

namespace isthmus::interjob {

/// Role that waits for jobs to end, in order, runs their `finish` and releases their memory.
class Releaser {
 public:
  explicit Releaser(Batch& batch) : batch_(batch) {}

  /// Concludes all jobs, each after it is queued.
  void run();
  void conclude(Entry& entry);

 private:
  void read_times(Entry& entry);
  void shrink_after(Entry& entry, Phase phase, device::Event& done);

  Batch& batch_;
  double kernel_end_ = 0, out_end_ = 0;  // times at which kernel and out of the last concluded job ended
};

}  // namespace isthmus::interjob
