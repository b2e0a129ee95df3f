#pragma once

#include "interjob/batch.hpp"

namespace isthmus::interjob {

/// Queues the phases of jobs that hold their memory, in the order of the jobs.
class Submitter {
 public:
  explicit Submitter(Batch& batch) : batch_(batch) {}

  /// All jobs, as each comes to hold what it needs.
  void run();
  /// One; a failure is noted, and the Releaser waits for what was queued.
  void queue(Entry& entry);

 private:
  std::exception_ptr await_rest(Entry& entry);

  Batch& batch_;
};

}  // namespace isthmus::interjob
