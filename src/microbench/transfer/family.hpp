#pragma once

#include <vector>

#include "harness/workload.hpp"

namespace isthmus::microbench::transfer {

std::vector<harness::Workload> bandwidth_workloads(const harness::Machine& machine);
std::vector<harness::Workload> latency_workloads(const harness::Machine& machine);

}  // namespace isthmus::microbench::transfer
