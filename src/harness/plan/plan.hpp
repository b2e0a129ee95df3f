#pragma once

// From what was asked on the command line to the list of cases. Everything that can be wrong with the request is found
// here, before any work.

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

struct Request {
  std::vector<std::string> patterns;
  std::vector<std::string> modes, placements, stagings, sizes;  ///< names, or "all"; empty: the default
  std::vector<std::string> settings;                            ///< "axis=value", "axis=value,value", "axis=all"
  std::optional<std::string> preset;
  bool size_sweep = false;
};

/// Throws InputError. `notices` gets a sentence for each thing that was asked and does not apply everywhere.
std::vector<CaseSpec> plan(const Request& request, std::vector<std::string>* notices = nullptr);

/// Throws InputError unless a pattern matches a workload.
std::vector<const Workload*> select_workloads(const std::vector<std::string>& patterns);

}  // namespace isthmus::harness
