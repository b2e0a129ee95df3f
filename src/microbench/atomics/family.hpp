#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::atomics {

/// Returns the workloads atomics/cpu/histogram, atomics/gpu<N>/histogram and atomics/gpu<N>/shared-histogram.
std::vector<workload::Workload> histogram_workloads(const workload::Machine& machine);
/// Returns the workloads atomics/cpu/ping-pong and atomics/gpu<N>/ping-pong.
std::vector<workload::Workload> ping_pong_workloads(const workload::Machine& machine);

/// Returns the seconds after which one side of a case gives up on the other: ten, or more if processes queue for
/// processors.
inline double patience() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  const auto processors = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return 10 * std::max(1.0, load / processors);
}

}  // namespace isthmus::microbench::atomics
