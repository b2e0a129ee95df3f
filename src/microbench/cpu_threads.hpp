#pragma once

// Axes that say which cores run threads and where their memory lies, for workloads that measure the CPU.

#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench {

/// Adds `threads`, `node`, `cores` and `bind`; `several`: a run takes one thread, half of the cores and all of them.
void add_thread_axes(workload::Workload& workload, const workload::Machine& machine, bool several);

struct ThreadPlaces {
  std::vector<int> processors;  ///< one for each thread
  int memory_node = -1;         ///< -1: beside each thread
};
/// How many threads the axes ask for, as far as this machine has cores for them.
std::size_t threads_asked_for(const workload::CaseSpec& spec);
/// As the axes of a case say. Throws workload::Skip where that cannot be.
ThreadPlaces thread_places(const workload::Case& c);

}  // namespace isthmus::microbench
