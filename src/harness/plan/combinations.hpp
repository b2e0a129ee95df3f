#pragma once

// Which placements, stagings and sizes a workload runs with.

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.hpp"

namespace isthmus::harness {

/// A placement and a staging, where the workload has them; `asked` where the user named it, so that a workload without
/// it says so in a record instead of leaving it out.
struct Combination {
  std::optional<memory::Placement> placement;
  std::optional<Staging> staging;
  std::optional<std::string> not_applicable;
};

/// The sizes to run: names that the workload has, names it lacks (skipped in the record), or none at all.
struct SizeChoice {
  std::optional<std::string> name;
  const Size* size = nullptr;
  std::optional<std::string> not_applicable;
};

/// Throws InputError for a name of a mode, placement, staging or size that there is not, whether a workload uses it or
/// not.
void check_names(const Request& request, const std::vector<const Workload*>& workloads);

/// Throws InputError where a mode, placement or staging is named and no selected workload offers any, or one that is
/// selected by its name does not; a notice where others do not.
void check_offers(const Request& request, const std::vector<const Workload*>& workloads,
                  std::vector<std::string>* notices);

/// `modes`: those asked for, or those of the preset.
std::vector<Combination> combinations(const Workload& workload, const Request& request,
                                      const std::vector<std::string>& modes);
std::vector<SizeChoice> sizes_of(const Workload& workload, const std::vector<std::string>& asked);

}  // namespace isthmus::harness
