// transfer/<from>-<to>/<initiator>[-duplex]: every way to move bytes between two memories of this machine.

#include "microbench/transfer/family.hpp"

namespace isthmus::microbench::transfer {

namespace {

std::vector<harness::Workload> workloads(const harness::Machine& machine) {
  auto all = bandwidth_workloads(machine);
  for (auto& workload : latency_workloads(machine)) all.push_back(std::move(workload));
  return all;
}

const harness::Family family("transfer/", workloads);

}  // namespace
}  // namespace isthmus::microbench::transfer
