#pragma once

// What a case needs of the machine, whatever its family.

#include <string>

#include "harness/workload.hpp"
#include "memory/numa_nodes.hpp"

namespace isthmus::microbench {

/// Throws harness::Skip with the reason where a NUMA node is not there; -1 passes.
inline void need_node(int node) {
  // A kernel that knows no nodes has all memory on what we call node 0.
  const bool only_one = memory::highest_numa_node() < 0 && node == 0;
  if (node >= 0 && !only_one && !memory::numa_node_usable(node))
    throw harness::Skip("NUMA node " + std::to_string(node) + " has no memory that this process may use");
}

/// The same for a GPU by its index.
inline void need_gpu(int index) {
  const int gpus = device::count();
  if (index >= gpus)
    throw harness::Skip("gpu" + std::to_string(index) + " is not there: this process sees " + std::to_string(gpus) +
                        (gpus == 1 ? " GPU" : " GPUs"));
}

}  // namespace isthmus::microbench
