// atomics/*: cost of coherence, measured by atomic updates of shared bins and by a cache line that moves back and
// forth.

#include "microbench/atomics/family.hpp"

namespace isthmus::microbench::atomics {

static const workload::Family family("atomics/", workload::all_of<histogram_workloads, ping_pong_workloads>);

}  // namespace isthmus::microbench::atomics
