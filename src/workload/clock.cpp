#include "workload/clock.hpp"

#include <chrono>

namespace isthmus::workload {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace isthmus::workload
