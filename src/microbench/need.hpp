#pragma once

namespace isthmus::microbench {

/// Throws harness::Skip with the reason where this process may use no memory of a NUMA node; -1 passes.
void need_node(int node);
/// The same for a GPU.
void need_gpu(int gpu);

}  // namespace isthmus::microbench
