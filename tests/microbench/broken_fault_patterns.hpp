#pragma once

// Planted bugs of faults/*. Included before everything else in the sources of test_fault_patterns_mutants.

#include "memory/thread_pool.hpp"
#include "microbench/fault_patterns/kernels.hpp"
#include "planted.hpp"
#include "workload/workload.hpp"

// Kernels are not launched.
#define launch(...) (isthmus::planted("NO_KERNEL") ? static_cast<void>(0) : launch(__VA_ARGS__))
// The host does not touch its last page.
#define part_of(count, parts, index) part_of((count) - (isthmus::planted("LAST_PAGE") ? 1 : 0), parts, index)
#if !defined(DEFINES_TOUCHES)  // the GPU does not touch its last page
namespace isthmus::microbench::fault_patterns {
inline void queue_fewer(device::Stream& stream, Access access, Touches touches, const device::DeviceInfo& device) {
  touches.count -= planted("LAST_TOUCH") ? 1 : 0;
  queue_touches(stream, access, touches, device);
}
}  // namespace isthmus::microbench::fault_patterns
#define queue_touches queue_fewer
#endif
