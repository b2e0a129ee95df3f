#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// All registered workloads by name, then what each family makes of this machine, in the family's order.
std::vector<const Workload*> all_workloads();
/// Those whose name matches; the pattern is a glob or a name. Families are expanded for as many GPUs and nodes as this
/// machine has or the pattern names. Pointers are valid as long as the process lives.
std::vector<const Workload*> find_workloads(std::string_view pattern);
/// Names that `pattern` could have matched.
std::vector<std::string> workload_names(std::string_view pattern = "*");

/// Throws std::logic_error where a preset is of a mode that there is not.
void check_modes(const Workload& workload);

/// Prefix of the family that made it; empty for a registered workload.
std::string_view family_of(const Workload& workload);

/// This machine, as far as a pattern's text does not ask for more ("gpu3": four GPUs; "node1": that node too).
Machine machine_for(std::string_view pattern);

}  // namespace isthmus::harness
