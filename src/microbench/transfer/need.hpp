#pragma once

#include "microbench/transfer/ends.hpp"

namespace isthmus::microbench::transfer {

/// Throws harness::Skip with the reason where a memory that the name speaks of is not there.
void need_ends(const Path& path);
/// The same for a NUMA node; -1 passes.
void need_node(int node);

}  // namespace isthmus::microbench::transfer
