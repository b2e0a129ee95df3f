#pragma once

namespace isthmus::microbench {

/// Throws workload::Skip with the reason where this process may not use memory of the NUMA node; -1 passes.
void need_node(int node);
/// The same where it does not see the GPU.
void need_gpu(int index);

}  // namespace isthmus::microbench
