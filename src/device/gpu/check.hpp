#pragma once

// Error checking of vendor calls. Every vendor call goes through ISTHMUS_CALL, which converts any status other than
// success into an Error that states our API function, the vendor's function, the reason and what to do.

#include "device/api/injection.hpp"
#include "device/gpu/vendor.hpp"

namespace isthmus::device::gpu {

/// Kind of failure that a status means, and advice to the user.
struct Diagnosis {
  ErrorKind kind;
  const char* hint;
};
Diagnosis diagnose(Status status) noexcept;

/// Throws the Error for a status other than success and clears the runtime's "last error".
[[noreturn]] void fail(const char* api, const char* vendor_call, Status status);

inline void check(const char* api, const char* vendor_call, Status status) {
  if (status != ISTHMUS_GPU(Success)) [[unlikely]]
    fail(api, vendor_call, status);
}

}  // namespace isthmus::device::gpu

/// Calls a runtime function and checks its status: ISTHMUS_CALL("malloc_device", Malloc, &pointer, bytes) calls
/// cudaMalloc or hipMalloc.
#define ISTHMUS_CALL(api, name, ...) \
  ::isthmus::device::gpu::check(api, ISTHMUS_GPU_NAME(name), ISTHMUS_GPU(name)(__VA_ARGS__))
