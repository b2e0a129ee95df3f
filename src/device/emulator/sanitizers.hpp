#pragma once

// What AddressSanitizer and ThreadSanitizer must be told about fibers; empty in other builds.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ISTHMUS_ASAN 1
#else
#define ISTHMUS_ASAN 0
#endif

// The files that switch fibers are compiled without TSan's instrumentation but talk to its run time.
#if defined(ISTHMUS_TSAN_RUNTIME)
#include <sanitizer/tsan_interface.h>
#define ISTHMUS_TSAN 1
#else
#define ISTHMUS_TSAN 0
#endif

namespace isthmus::device::emulator {

/// What happened before release(p) is seen to have happened before what follows acquire(p).
inline void sanitizer_release([[maybe_unused]] void* address) {
#if ISTHMUS_TSAN
  __tsan_release(address);
#endif
}
inline void sanitizer_acquire([[maybe_unused]] void* address) {
#if ISTHMUS_TSAN
  __tsan_acquire(address);
#endif
}

}  // namespace isthmus::device::emulator
