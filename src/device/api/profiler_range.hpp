#pragma once

// Names for what a profiler draws: phases of a case as NVTX or rocTX ranges.

namespace isthmus::device {

/// A stretch of the calling thread's time with a name that lives as long (a literal), shown by profilers. Does nothing
/// unless a profiler runs ($ISTHMUS_PROFILER is set) and nothing on the emulator.
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
