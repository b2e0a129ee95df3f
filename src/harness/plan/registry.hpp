#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// Returns all registered workloads, sorted by name, followed by the workloads that each family makes for this machine,
/// in the family's order.
std::vector<const Workload*> all_workloads();
/// Returns the workloads whose names match the pattern (a glob or a name). Families are expanded for as many GPUs and
/// nodes as this machine has or the pattern names. Pointers stay valid until the process ends.
std::vector<const Workload*> find_workloads(std::string_view pattern);
/// Returns the names that `pattern` could have matched.
std::vector<std::string> workload_names(std::string_view pattern = "*");

/// Throws std::logic_error if a preset names an unknown mode.
void check_modes(const Workload& workload);

/// Returns the prefix of the family that made the workload; empty for a registered workload.
std::string_view family_of(const Workload& workload);

/// Returns this machine, enlarged by what the pattern names ("gpu3": at least four GPUs; "node1": also that node).
Machine machine_for(std::string_view pattern);

}  // namespace isthmus::harness
