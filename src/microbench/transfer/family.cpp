// transfer/<from>-<to>/<initiator>[-duplex]: every way to move bytes between two memories of this machine.

#include "microbench/transfer/family.hpp"

namespace isthmus::microbench::transfer {

namespace {

std::vector<workload::Workload> workloads(const workload::Machine& machine) {
  auto all = bandwidth_workloads(machine);
  for (auto& workload : latency_workloads(machine)) all.push_back(std::move(workload));
  return all;
}

const workload::Family family("transfer/", workloads);

}  // namespace
}  // namespace isthmus::microbench::transfer
