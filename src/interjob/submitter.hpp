#pragma once

#include "interjob/batch.hpp"

namespace isthmus::interjob {

/// Role that queues the phases of jobs whose memory is allocated, in the order of the jobs.
class Submitter {
 public:
  explicit Submitter(Batch& batch) : batch_(batch) {}

  /// Queues all jobs, each as soon as its memory is ready.
  void run();
  /// Queues one job; a failure is recorded, and the Releaser waits for the work already queued.
  void queue(Entry& entry);

 private:
  std::exception_ptr await_rest(Entry& entry);

  Batch& batch_;
};

}  // namespace isthmus::interjob
