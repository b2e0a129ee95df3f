#pragma once

// What workloads and memory were called until records of version 3, when a kind of memory came to have one name
// everywhere. analysis/isthmus/records/old_names.py has the same rules; both are tested with tests/data/old_names.json.

#include <string>
#include <string_view>

#include "workload/axis.hpp"

namespace isthmus::harness {

/// What the workload, or a pattern of such names, is called now; as it was where that is the same.
std::string current_workload(std::string_view workload);

/// What the value of the workload's axis `memory` is now: the settings that stand for it.
workload::AxisSettings current_memory(std::string_view workload, std::string_view value);

}  // namespace isthmus::harness
