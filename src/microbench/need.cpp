#include "microbench/need.hpp"

#include <string>

#include "device/api/device.hpp"
#include "memory/numa_nodes.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

using workload::Skip;

void need_node(int node) {
  // A kernel that knows no nodes has all memory on what we call node 0.
  const bool only_one = memory::highest_numa_node() < 0 && node == 0;
  if (node >= 0 && !only_one && !memory::numa_node_usable(node))
    throw Skip("NUMA node " + std::to_string(node) + " has no memory that this process may use");
}

void need_gpu(int index) {
  const int gpus = device::count();
  if (index >= gpus)
    throw Skip("gpu" + std::to_string(index) + " is not there: this process sees " + std::to_string(gpus) +
               (gpus == 1 ? " GPU" : " GPUs"));
}

void need_kind(Kind kind, Reader reader, const device::DeviceInfo& info) {
  if (const auto why = memory::obstacle(kind, reader, info)) throw Skip(*why);
}

}  // namespace isthmus::microbench
