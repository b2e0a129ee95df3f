#pragma once

// Every vendor call goes through ISTHMUS_CALL: a status that is not success becomes an Error that names the function
// of our API, the vendor's function, its reason and what to do.

#include "device/api/injection.hpp"
#include "device/gpu/vendor.hpp"

namespace isthmus::device::gpu {

/// What kind of failure a status is, and what helps.
struct Diagnosis {
  ErrorKind kind;
  const char* hint;
};
Diagnosis diagnose(Status status) noexcept;

/// Throws the Error for a status that is not success, and clears it from the runtime's "last error".
[[noreturn]] void fail(const char* api, const char* vendor_call, Status status);

inline void check(const char* api, const char* vendor_call, Status status) {
  if (status != ISTHMUS_GPU(Success)) [[unlikely]]
    fail(api, vendor_call, status);
}

}  // namespace isthmus::device::gpu

/// ISTHMUS_CALL("malloc_device", Malloc, &pointer, bytes) calls cudaMalloc or hipMalloc.
#define ISTHMUS_CALL(api, name, ...) \
  ::isthmus::device::gpu::check(api, ISTHMUS_GPU_NAME(name), ISTHMUS_GPU(name)(__VA_ARGS__))
