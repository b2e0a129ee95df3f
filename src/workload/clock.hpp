#pragma once

#include <time.h>

namespace isthmus::workload {

/// Returns the time in seconds on the host's steady clock, the only clock used for measuring. Avoids <chrono>, because
/// every workload would have to compile it.
inline double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec * 1'000'000'000LL + time.tv_nsec) / 1e9;
}

}  // namespace isthmus::workload
