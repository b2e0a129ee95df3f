#pragma once

// Programs whose page faults are watched. Each is registered twice: as apps/NAME, and as faults/NAME next to the access
// patterns (watched.cpp).

#include <string>

#include "workload/workload.hpp"

namespace isthmus::apps {

workload::Workload fft_program(const std::string& name);
workload::Workload gauss_seidel_program(const std::string& name);
workload::Workload multigrid_program(const std::string& name);

}  // namespace isthmus::apps
