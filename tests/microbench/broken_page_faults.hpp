#pragma once

// Included before everything else in the sources of test_faults_mutant_*, with one of these defined.

#include "memory/crew.hpp"
#include "microbench/faults/kernels.hpp"
#include "workload/workload.hpp"

#if defined(MUTANT_NO_KERNEL)  // nothing runs on the GPU
#define launch(...) static_cast<void>(__LINE__)
#elif defined(MUTANT_LAST_PAGE)  // the host forgets its last page
#define part_of(count, parts, index) part_of((count) - 1, parts, index)
#elif defined(MUTANT_LAST_TOUCH) && !defined(DEFINES_TOUCHES)  // the GPU forgets its last page
namespace isthmus::microbench::faults {
inline void queue_fewer(device::Stream& stream, Access access, Touches touches, const device::DeviceInfo& device) {
  --touches.count;
  queue_touches(stream, access, touches, device);
}
}  // namespace isthmus::microbench::faults
#define queue_touches queue_fewer
#endif
