// atomics/*: what coherence costs: atomic updates of shared bins, and one cache line that goes to and fro.

#include "microbench/atomics/family.hpp"

namespace isthmus::microbench::atomics {

namespace {

std::vector<harness::Workload> workloads(const harness::Machine& machine) {
  auto all = histogram_workloads(machine);
  for (auto& workload : ping_pong_workloads(machine)) all.push_back(std::move(workload));
  return all;
}

const harness::Family family("atomics/", workloads);

}  // namespace
}  // namespace isthmus::microbench::atomics
