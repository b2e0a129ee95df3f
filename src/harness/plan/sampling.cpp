#include "harness/plan/sampling.hpp"

#include <cstdlib>

namespace isthmus::harness {

SamplingOptions sampling_of(const CaseSpec& spec, SamplingOptions asked) {
  const auto* preset = spec.preset ? spec.workload->description().find_preset(*spec.preset) : nullptr;
  if (preset != nullptr && !asked.least_time) asked.least_time = preset->least_time;
  // A profiler may run kernels one by one, so that a latch would wait until it times out. Batches, whose size depends
  // on durations, would change the profiler's counts.
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
