// Profiler ranges. NVTX is header-only and itself finds the profiler; rocTX is a library that comes with a profiler and
// is loaded at run time.

#include "device/api/profiler_range.hpp"

#include <cstdlib>

#if defined(ISTHMUS_BACKEND_CUDA)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define ISTHMUS_NVTX
#endif
#else
#include <dlfcn.h>

#include <initializer_list>
#endif

namespace isthmus::device {

namespace {

struct Ranges {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
};

Ranges load() {
  const char* profiler = std::getenv("ISTHMUS_PROFILER");
  if (profiler == nullptr || *profiler == '\0') return {};
#if defined(ISTHMUS_NVTX)
  return {[](const char* name) { return nvtxRangePushA(name); }, [] { return nvtxRangePop(); }};
#elif defined(ISTHMUS_BACKEND_HIP)
  for (const char* file : {"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4", "libroctx64.so"}) {
    if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
      const Ranges found{reinterpret_cast<int (*)(const char*)>(dlsym(library, "roctxRangePushA")),
                         reinterpret_cast<int (*)()>(dlsym(library, "roctxRangePop"))};
      if (found.push != nullptr && found.pop != nullptr) return found;
    }
  }
  return {};
#else
  return {};
#endif
}

const Ranges& ranges() {
  static const Ranges found = load();
  return found;
}

}  // namespace

ProfilerRange::ProfilerRange(const char* name) noexcept : open_(ranges().push != nullptr) {
  if (open_) ranges().push(name);
}

ProfilerRange::~ProfilerRange() {
  if (open_ && ranges().pop != nullptr) ranges().pop();
}

}  // namespace isthmus::device
