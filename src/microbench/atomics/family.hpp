#pragma once

#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::atomics {

/// atomics/cpu/histogram, atomics/gpu<N>/histogram, atomics/gpu<N>/shared-histogram.
std::vector<workload::Workload> histogram_workloads(const workload::Machine& machine);
/// atomics/cpu/ping-pong, atomics/gpu<N>/ping-pong.
std::vector<workload::Workload> ping_pong_workloads(const workload::Machine& machine);

}  // namespace isthmus::microbench::atomics
