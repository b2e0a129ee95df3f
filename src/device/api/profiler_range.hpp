#pragma once

// Named ranges for profilers: phases of a case as NVTX or rocTX ranges.

namespace isthmus::device {

/// Named interval of the calling thread, shown by profilers. `name` must exist as long as this object (use a literal).
/// Does nothing without a profiler ($ISTHMUS_PROFILER is not set) or on the emulator.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name) noexcept;
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  bool open_;
};

}  // namespace isthmus::device
