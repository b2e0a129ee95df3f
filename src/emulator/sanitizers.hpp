#pragma once

// Annotations of fibers for AddressSanitizer and ThreadSanitizer; empty in other builds.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define EMULATOR_ASAN 1
#else
#define EMULATOR_ASAN 0
#endif

// The files that switch fibers are compiled without TSan's instrumentation but call functions of its run time.
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

/// Orders all accesses before sanitizer_release(p) before all accesses after sanitizer_acquire(p).
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

/// Scope in which accesses are hidden from TSan. For the emulator's own containers: TSan observes their allocations and
/// memmoves even in code without instrumentation.
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
  Unseen() {}  // user-provided, so that an instance is not an unused variable
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// Scope in which locks order nothing for TSan. The data that they protect must be Unseen.
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
