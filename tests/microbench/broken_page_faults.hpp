#pragma once

// Included before everything else in the sources of test_faults_mutants.

#include "memory/crew.hpp"
#include "microbench/faults/kernels.hpp"
#include "planted.hpp"
#include "workload/workload.hpp"

// Nothing runs on the GPU.
#define launch(...) (isthmus::planted("NO_KERNEL") ? static_cast<void>(0) : launch(__VA_ARGS__))
// The host forgets its last page.
#define part_of(count, parts, index) part_of((count) - (isthmus::planted("LAST_PAGE") ? 1 : 0), parts, index)
#if !defined(DEFINES_TOUCHES)  // the GPU forgets its last page
namespace isthmus::microbench::faults {
inline void queue_fewer(device::Stream& stream, Access access, Touches touches, const device::DeviceInfo& device) {
  touches.count -= planted("LAST_TOUCH") ? 1 : 0;
  queue_touches(stream, access, touches, device);
}
}  // namespace isthmus::microbench::faults
#define queue_touches queue_fewer
#endif
