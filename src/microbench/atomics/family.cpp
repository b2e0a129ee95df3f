// atomics/*: what coherence costs: atomic updates of shared bins, and one cache line that goes to and fro.

#include "microbench/atomics/family.hpp"

namespace isthmus::microbench::atomics {

static const workload::Family family("atomics/", workload::all_of<histogram_workloads, ping_pong_workloads>);

}  // namespace isthmus::microbench::atomics
