#pragma once

#include "interjob/batch.hpp"

namespace isthmus::interjob {

/// Waits for the ends of jobs, in their order, lets them look at their results and releases what they hold.
class Releaser {
 public:
  explicit Releaser(Batch& batch) : batch_(batch) {}

  /// All jobs, as each comes to be queued.
  void run();
  void conclude(Entry& entry);

 private:
  void read_times(Entry& entry);
  void shrink_after(Entry& entry, Phase phase, device::Event& done);

  Batch& batch_;
  double kernel_end_ = 0, out_end_ = 0;  // of the last job that ended
};

}  // namespace isthmus::interjob
