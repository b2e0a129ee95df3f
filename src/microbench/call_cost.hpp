#pragma once

// How the cost of a call is read: on the host's clock. And the launch that costs least.

#include "workload/workload.hpp"

namespace isthmus::microbench {

/// Of a metric in seconds of one call.
inline constexpr const char* kCallsUnbounded = "the cost of a call has no known bound";

/// Queues an empty kernel of one block, without much to carry.
void launch_empty(device::Stream& stream);

/// Seconds that `work` takes.
template <class Work>
double timed(Work&& work) {
  const double begin = workload::now();
  work();
  return workload::now() - begin;
}

}  // namespace isthmus::microbench
