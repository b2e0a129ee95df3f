#pragma once

// What AddressSanitizer and ThreadSanitizer must be told about fibers; empty in other builds.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define EMULATOR_ASAN 1
#else
#define EMULATOR_ASAN 0
#endif

// The files that switch fibers are compiled without TSan's instrumentation but talk to its run time.
#if defined(EMULATOR_TSAN_RUNTIME) || defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define EMULATOR_TSAN 1
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#else
#define EMULATOR_TSAN 0
#endif

namespace emulator {
namespace {

/// What happened before release(p) is seen to have happened before what follows acquire(p).
[[maybe_unused]] inline void sanitizer_release([[maybe_unused]] void* address) {
#if EMULATOR_TSAN
  __tsan_release(address);
#endif
}
[[maybe_unused]] inline void sanitizer_acquire([[maybe_unused]] void* address) {
#if EMULATOR_TSAN
  __tsan_acquire(address);
#endif
}

/// While one lives, TSan does not look: for the emulator's own containers, whose allocations and memmoves it would see
/// in code without instrumentation too.
class Unseen {
 public:
#if EMULATOR_TSAN
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unseen() {}  // user-provided, so that an object of it is not an unused variable
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// The same for locks: while one lives, they order nothing. What they protect must be Unseen, too.
class Unordered {
 public:
#if EMULATOR_TSAN
  Unordered() { AnnotateIgnoreSyncBegin(__FILE__, __LINE__); }
  ~Unordered() { AnnotateIgnoreSyncEnd(__FILE__, __LINE__); }
#else
  Unordered() {}
#endif
  Unordered(const Unordered&) = delete;
  Unordered& operator=(const Unordered&) = delete;
};

}  // namespace
}  // namespace emulator
