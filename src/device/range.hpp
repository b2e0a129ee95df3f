#pragma once

// Names for what a profiler draws: phases of a case as NVTX or rocTX ranges.

namespace isthmus::device {

/// A stretch of the calling thread's time with a name that lives as long (a literal), shown by profilers. Does nothing
/// unless a profiler runs ($ISTHMUS_PROFILER is set) and nothing on the emulator.
class Range {
 public:
  explicit Range(const char* name) noexcept;
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool open_;
};

}  // namespace isthmus::device
