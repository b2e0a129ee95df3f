#pragma once

#include <vector>

#include "harness/workload.hpp"

namespace isthmus::microbench::atomics {

/// atomics/cpu/histogram, atomics/gpu<N>/histogram, atomics/gpu<N>/shared-histogram.
std::vector<harness::Workload> histogram_workloads(const harness::Machine& machine);
/// atomics/cpu/ping-pong, atomics/gpu<N>/ping-pong.
std::vector<harness::Workload> ping_pong_workloads(const harness::Machine& machine);

}  // namespace isthmus::microbench::atomics
