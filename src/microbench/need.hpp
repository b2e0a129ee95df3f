#pragma once

#include "memory/kind.hpp"

namespace isthmus::microbench {

using memory::Kind;
using memory::Reader;

/// Throws workload::Skip with the reason where this process may not use memory of the NUMA node; -1 passes.
void need_node(int node);
/// The same where it does not see the GPU.
void need_gpu(int index);
/// The same where memory::obstacle() has a reason.
void need_kind(Kind kind, Reader reader, const device::DeviceInfo& info);

}  // namespace isthmus::microbench
