#pragma once

// What the command line asks for. The texts are read once, before any work, and everything that can be wrong with them
// is found here.

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// The request is wrong; what() is one sentence that says what to do. Exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the user typed.
struct RequestTexts {
  std::vector<std::string> patterns;
  std::vector<std::string> modes, placements, stagings, sizes;  ///< names, or "all"; empty: the default
  std::vector<std::string> settings;                            ///< "axis=value", "axis=value,value", "axis=all"
  std::optional<std::string> preset;
  bool size_sweep = false;
};

/// An axis and the values that it takes in turn, at least one.
struct AxisRange {
  std::string axis;
  std::vector<AxisValue> values;
};

/// A size that the workload has, one that it lacks (recorded as skipped), or none; and what varies at that size.
struct SizeChoice {
  std::optional<std::string> name;
  const Size* size = nullptr;
  std::optional<std::string> not_applicable;
  std::vector<AxisRange> ranges{};
};

/// The cases of one workload: the product of its combinations, its sizes and their ranges. There is at least one.
struct WorkloadRequest {
  const Workload* workload = nullptr;
  const Preset* preset = nullptr;
  /// Cases without size and axes. A placement or staging that the user named and the workload lacks is recorded as
  /// skipped.
  std::vector<CaseSpec> combinations{};
  std::vector<SizeChoice> sizes{};
};

/// Axis of a --set, and its values as typed.
struct Setting {
  std::string axis;
  std::vector<std::string> values;
};

struct Request {
  std::vector<WorkloadRequest> workloads;
  std::vector<Setting> settings;     ///< for sentences that name them
  bool names_sizes = false;          ///< by --size or --size-sweep
  std::vector<std::string> notices;  ///< a sentence for each thing that was asked and does not apply everywhere
};

/// Number of cases, before those that a setting makes equal become one.
double most_cases(const WorkloadRequest& request);

/// Throws InputError.
Request parse_request(const RequestTexts& texts);

/// Workloads that the patterns match. Throws InputError for a pattern that matches none.
std::vector<const Workload*> select_workloads(const std::vector<std::string>& patterns);

}  // namespace isthmus::harness
