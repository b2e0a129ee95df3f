#pragma once

#include "memory/kind.hpp"

namespace isthmus::microbench {

using memory::Kind;
using memory::Reader;

/// Throws workload::Skip with the reason if this process may not use memory of the NUMA node; -1 always passes.
void require_node(int node);
/// Throws workload::Skip with the reason if this process does not see the GPU.
void require_gpu(int index);
/// Throws workload::Skip with the reason if memory::unsupported_reason() returns one.
void require_kind(Kind kind, Reader reader, const device::DeviceInfo& info);

}  // namespace isthmus::microbench
