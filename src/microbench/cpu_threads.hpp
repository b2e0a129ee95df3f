#pragma once

// Axes that select the cores that run threads and the placement of their memory, for workloads that measure the CPU.

#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench {

/// Adds the axes `threads`, `node`, `cores` and `bind`. `several`: by default, a run uses one thread, then half of the
/// cores, then all cores.
void add_thread_axes(workload::Workload& workload, const workload::Machine& machine, bool several);

struct ThreadPlaces {
  std::vector<int> processors;  ///< one for each thread
  int memory_node = -1;         ///< NUMA node; -1 if memory is local to each thread
};
/// Returns the number of threads that the axes request, limited to this machine's cores.
std::size_t threads_asked_for(const workload::CaseSpec& spec);
/// Returns the places that the axes of a case request. Throws workload::Skip if they do not exist.
ThreadPlaces thread_places(const workload::Case& c);

}  // namespace isthmus::microbench
