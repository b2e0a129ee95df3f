#pragma once

// Routes from a memory to its reader, named as on the command line and in the records: latency/<from>-<to>/chase.

#include <string>
#include <vector>

#include "microbench/require.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::latency {

/// Memory of one kind. `index` is the GPU of device memory, or the NUMA node if `on_node`.
struct From {
  Kind kind = Kind::pageable;
  bool on_node = false;  ///< allocated on the named node
  int index = 0;
};

/// Reader: one GPU, or a processor of the CPU (on NUMA node `node` unless that is -1).
struct To {
  Reader reader = Reader::cpu;
  int node = -1, gpu = -1;
};

struct Route {
  From from;
  To to;

  /// Returns a name such as "pageable-cpu", "node0-node1" or "gpu0-gpu0".
  std::string name() const;
  /// Returns a description in words, for `list`.
  std::string summary() const;
  /// Returns whether no GPU takes part.
  bool cpu_only() const;
  std::vector<int> gpus() const;
};

/// Returns all routes that exist on a machine.
std::vector<Route> routes(const workload::Machine& machine);

/// Returns the default processor that reads: the first of `of_node`, or the first of `of_all` if `of_node` is empty (a
/// node with memory only). Returns -1 if both are empty.
int reading_processor(const std::vector<int>& of_node, const std::vector<int>& of_all);

}  // namespace isthmus::microbench::latency
