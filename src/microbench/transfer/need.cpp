#include "microbench/transfer/need.hpp"

#include "device/device.hpp"
#include "memory/numa_nodes.hpp"

namespace isthmus::microbench::transfer {

using harness::Skip;

void need_node(int node) {
  // A kernel that knows no nodes has all memory on what we call node 0.
  const bool only_one = memory::highest_numa_node() < 0 && node == 0;
  if (node >= 0 && !only_one && !memory::numa_node_usable(node))
    throw Skip("NUMA node " + std::to_string(node) + " has no memory that this process may use");
}

void need_ends(const Path& path) {
  for (const auto& end : {path.from, path.to}) {
    if (end.memory == Memory::node) need_node(end.index);
    if (end.memory != Memory::gpu && end.memory != Memory::all) continue;
    const int gpus = device::count();
    const std::string there = "this process sees " + std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs");
    if (end.memory == Memory::gpu && end.index >= gpus) throw Skip(end.name() + " is not there: " + there);
    if (end.memory == Memory::all && gpus < 2) throw Skip("'all' means several GPUs, and " + there);
  }
}

}  // namespace isthmus::microbench::transfer
