#pragma once

// Whose memory is read by whom, by the names that the command line and the records use: latency/<from>-<to>/chase.

#include <string>
#include <vector>

#include "microbench/need.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::latency {

/// Memory of a kind; `index` is the GPU of device memory, and the NUMA node of `on_node`.
struct From {
  Kind kind = Kind::pageable;
  bool on_node = false;  ///< allocated on the node that the name says
  int index = 0;
};

/// A processor of the CPU, of one NUMA node where `node` is not -1, or one GPU.
struct To {
  Reader reader = Reader::cpu;
  int node = -1, gpu = -1;
};

struct Route {
  From from;
  To to;

  /// "pageable-cpu", "node0-node1", "gpu0-gpu0".
  std::string name() const;
  /// In words, for `list`.
  std::string summary() const;
  /// No GPU has a part in it.
  bool cpu_only() const;
  std::vector<int> gpus() const;
};

/// Everything that can be named on a machine.
std::vector<Route> routes(const workload::Machine& machine);

/// The processor that reads where nobody says which: the first of those that `node` has, and where it has none (a node
/// of memory only) the first of all. -1 where there is none at all.
int reading_processor(const std::vector<int>& of_node, const std::vector<int>& of_all);

}  // namespace isthmus::microbench::latency
