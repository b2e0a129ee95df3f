#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::atomics {

/// atomics/cpu/histogram, atomics/gpu<N>/histogram, atomics/gpu<N>/shared-histogram.
std::vector<workload::Workload> histogram_workloads(const workload::Machine& machine);
/// atomics/cpu/ping-pong, atomics/gpu<N>/ping-pong.
std::vector<workload::Workload> ping_pong_workloads(const workload::Machine& machine);

/// Seconds after which one side of a case gives up on the other: ten, and longer where processes queue for processors.
inline double patience() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  const auto processors = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return 10 * std::max(1.0, load / processors);
}

}  // namespace isthmus::microbench::atomics
