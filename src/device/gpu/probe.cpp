// Kernel that is never launched, only queried: it shows how this binary's kernels were compiled, which determines the
// kernel capabilities in DeviceInfo.

#include "device/gpu/check.hpp"
#include "device/gpu/device_limits.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device::gpu {

__global__ void probe(int* out) {
  if (out != nullptr) *out = has_async_copy() ? 1 : 0;
}

NativeFunctionAttributes probe_attributes() {
  NativeFunctionAttributes attributes{};
  ISTHMUS_CALL("info", FuncGetAttributes, &attributes, reinterpret_cast<const void*>(&probe));
  return attributes;
}

}  // namespace isthmus::device::gpu
