// transfer/<from>-<to>/<initiator>[-duplex]: every method of moving bytes between two memories of this machine.

#include "microbench/transfer/family.hpp"

namespace isthmus::microbench::transfer {

static const workload::Family family("transfer/", workload::all_of<bandwidth_workloads, latency_workloads>);

}  // namespace isthmus::microbench::transfer
