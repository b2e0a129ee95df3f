// atomics/*: what coherence costs: atomic updates of shared bins, and one cache line that goes to and fro.

#include "microbench/atomics/family.hpp"

namespace isthmus::microbench::atomics {

namespace {

std::vector<workload::Workload> workloads(const workload::Machine& machine) {
  auto all = histogram_workloads(machine);
  for (auto& workload : ping_pong_workloads(machine)) all.push_back(std::move(workload));
  return all;
}

const workload::Family family("atomics/", workloads);

}  // namespace
}  // namespace isthmus::microbench::atomics
