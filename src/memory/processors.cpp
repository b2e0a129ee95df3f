#include "memory/processors.hpp"

#include <numa.h>

#include "memory/numa_nodes.hpp"

namespace isthmus::memory {

std::vector<int> usable_processors(int node) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  // A kernel that knows no nodes has everything on what we call node 0.
  const bool known = numa_available() >= 0;
  if (!known && node > 0) return {};
  std::vector<int> list;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    if (node < 0 || !known || numa_node_of_cpu(processor) == node) list.push_back(processor);
  }
  return list;
}

int memory_node_of_processor(int processor) {
  if (processor < 0 || numa_available() < 0) return -1;
  const int node = numa_node_of_cpu(processor);
  return numa_node_usable(node) ? node : -1;
}

ScopedThreadProcessor::ScopedThreadProcessor(int processor) noexcept {
  if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof old_, &old_) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  bound_ = sched_setaffinity(0, sizeof one, &one) == 0;
}

ScopedThreadProcessor::~ScopedThreadProcessor() {
  if (bound_) sched_setaffinity(0, sizeof old_, &old_);
}

}  // namespace isthmus::memory
