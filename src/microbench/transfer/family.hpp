#pragma once

#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::transfer {

std::vector<workload::Workload> bandwidth_workloads(const workload::Machine& machine);
std::vector<workload::Workload> latency_workloads(const workload::Machine& machine);

}  // namespace isthmus::microbench::transfer
