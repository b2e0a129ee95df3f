#pragma once

// Request made on the command line. Its texts are parsed once, before any work, and all errors in them are found here.

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// Error in the request, which leads to exit code 2. what() is one sentence that also says what to do.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Texts that the user typed.
struct RequestTexts {
  std::vector<std::string> patterns;
  std::vector<std::string> modes, placements, stagings, sizes;  ///< names, or "all"; empty for the default
  std::vector<std::string> settings;                            ///< "axis=value", "axis=value,value", "axis=all"
  std::optional<std::string> preset;
  bool size_sweep = false;
};

/// Axis and its values in successive cases; there is at least one value.
struct AxisRange {
  std::string axis;
  std::vector<AxisValue> values;
};

/// Choice of size for a workload: a size that it has, a size that it lacks (recorded as skipped), or no size; with the
/// axes that vary at this size.
struct SizeChoice {
  std::optional<std::string> name;
  const Size* size = nullptr;
  std::optional<std::string> not_applicable;
  std::vector<AxisRange> ranges{};
};

/// Cases of one workload: the product of its combinations, its sizes and their ranges. There is at least one case.
struct WorkloadRequest {
  const Workload* workload = nullptr;
  const Preset* preset = nullptr;
  /// Cases, still without size and axis values. A placement or staging that the user named and the workload lacks is
  /// recorded as skipped.
  std::vector<CaseSpec> combinations{};
  std::vector<SizeChoice> sizes{};
};

/// Axis of a --set option, and its values as typed.
struct Setting {
  std::string axis;
  std::vector<std::string> values;
};

struct Request {
  std::vector<WorkloadRequest> workloads;
  std::vector<Setting> settings;     ///< settings of --set, for messages
  bool names_sizes = false;          ///< set by --size or --size-sweep
  std::vector<std::string> notices;  ///< one sentence for each request that does not apply to every workload
};

/// Returns the number of cases before duplicates, which a setting can create, are removed.
double most_cases(const WorkloadRequest& request);

/// Parses the texts. Throws InputError.
Request parse_request(const RequestTexts& texts);

/// Returns the workloads that the patterns match. Throws InputError for a pattern that matches none.
std::vector<const Workload*> select_workloads(const std::vector<std::string>& patterns);

}  // namespace isthmus::harness
