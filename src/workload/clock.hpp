#pragma once

#include <time.h>

namespace isthmus::workload {

/// Seconds on the host's steady clock: the only one that is measured with. Without <chrono>, which every workload would
/// be compiled with.
inline double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec * 1'000'000'000LL + time.tv_nsec) / 1e9;
}

}  // namespace isthmus::workload
