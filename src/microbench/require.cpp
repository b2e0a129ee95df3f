#include "microbench/require.hpp"

#include <string>

#include "device/api/device.hpp"
#include "memory/numa_nodes.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

using workload::Skip;

void require_node(int node) {
  // On a kernel without NUMA support, all memory counts as memory of node 0.
  const bool only_one = memory::highest_numa_node() < 0 && node == 0;
  if (node >= 0 && !only_one && !memory::numa_node_usable(node))
    throw Skip("NUMA node " + std::to_string(node) + " has no memory that this process may use");
}

void require_gpu(int index) {
  const int gpus = device::count();
  if (index >= gpus)
    throw Skip("gpu" + std::to_string(index) + " does not exist for this process, which sees " + std::to_string(gpus) +
               (gpus == 1 ? " GPU" : " GPUs"));
}

void require_kind(Kind kind, Reader reader, const device::DeviceInfo& info) {
  if (const auto why = memory::unsupported_reason(kind, reader, info)) throw Skip(*why);
}

}  // namespace isthmus::microbench
