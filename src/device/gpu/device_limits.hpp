#pragma once

#include <cstddef>

#include "device/gpu/vendor.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device::gpu {

/// Limits that a launch is checked against; queried once per device, because launches are timed.
struct Limits {
  Extent grid, block;
  int threads_per_block = 0;
  int threads_per_multiprocessor = 0;
  int multiprocessors = 0;
  std::size_t shared_per_block = 0;  // including opt-in
  bool cooperative = false;
};
const Limits& limits(int device);

/// Returns the attributes of the probe kernel, which show what this binary's kernels were compiled for.
NativeFunctionAttributes probe_attributes();

}  // namespace isthmus::device::gpu
