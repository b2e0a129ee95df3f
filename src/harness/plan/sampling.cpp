#include "harness/plan/sampling.hpp"

#include <cstdlib>

namespace isthmus::harness {

SamplingOptions sampling_of(const CaseSpec& spec, SamplingOptions asked) {
  const auto* preset = spec.preset ? spec.workload->description().find_preset(*spec.preset) : nullptr;
  if (preset != nullptr && !asked.least_time) asked.least_time = preset->least_time;
  // Profilers may run kernels one by one, so a latch would wait for its time-out; and what they count must not hang on
  // how long something took.
  if (const char* profiler = std::getenv("ISTHMUS_PROFILER"); profiler != nullptr && *profiler != '\0') {
    asked.latch = false;
    asked.largest_batch = 1;
  }
  return asked;
}

bool is_emulated(const Workload& workload) noexcept {
  return device::backend() == device::Backend::emulator && !workload.description().cpu_only;
}

}  // namespace isthmus::harness
