#include "device/api/profiler_range.hpp"

namespace isthmus::device {

ProfilerRange::ProfilerRange(const char*) noexcept : open_(false) {}
ProfilerRange::~ProfilerRange() = default;

}  // namespace isthmus::device
