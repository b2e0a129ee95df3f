#pragma once

// Timing of a call by the host's clock, and the cheapest launch.

#include "workload/workload.hpp"

namespace isthmus::microbench {

/// Reason why seconds per call have no limit.
inline constexpr const char* kCallsUnbounded = "the cost of a call has no known bound";

/// Queues an empty kernel of one block with a small argument.
void launch_empty(device::Stream& stream);

/// Returns the seconds that `work` takes.
template <class Work>
double timed(Work&& work) {
  const double begin = workload::now();
  work();
  return workload::now() - begin;
}

}  // namespace isthmus::microbench
