#pragma once

// Axes that say which cores run threads and where their memory lies, for workloads that measure the CPU.

#include <vector>

#include "harness/workload.hpp"

namespace isthmus::microbench {

/// Adds `threads`, `node`, `cores` and `bind`; `several`: a run takes one thread, half of the cores and all of them.
void add_thread_axes(harness::Workload& workload, const harness::Machine& machine, bool several);

struct ThreadPlaces {
  std::vector<int> processors;  ///< one for each thread
  int memory_node = -1;         ///< -1: beside each thread
};
/// As the axes of a case say. Throws harness::Skip where that cannot be.
ThreadPlaces thread_places(const harness::Case& c);

}  // namespace isthmus::microbench
