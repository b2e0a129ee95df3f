#pragma once

#include <chrono>

namespace isthmus::workload {

/// Seconds on the host's steady clock: the only one that is measured with.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace isthmus::workload
