#pragma once

#include <cstddef>

#include "device/gpu/vendor.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device::gpu {

/// What a launch is checked against; asked once per device, because launches are timed.
struct Limits {
  Extent grid, block;
  int threads_per_block = 0;
  int threads_per_multiprocessor = 0;
  int multiprocessors = 0;
  std::size_t shared_per_block = 0;  // opt-in included
  bool cooperative = false;
};
const Limits& limits(int device);

/// Loads the probe kernel's attributes: what this binary's kernels were compiled for.
NativeFunctionAttributes probe_attributes();

}  // namespace isthmus::device::gpu
