#pragma once

// From what was asked on the command line to the list of cases. Everything that can be wrong with the request is found
// here, before any work.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/description.hpp"

namespace isthmus::harness {

/// The request is wrong; what() is one sentence that says what to do. Exit code 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Request {
  std::vector<std::string> patterns;
  std::vector<std::string> modes, placements, stagings, sizes;  ///< names, or "all"; empty: the default
  std::vector<std::string> settings;                            ///< "axis=value"
  std::optional<std::string> preset;
};

struct CaseSpec {
  const Workload* workload = nullptr;
  std::optional<memory::Placement> placement;
  std::optional<Staging> staging;
  std::optional<std::string> size;
  std::optional<std::string> preset;
  AxisSettings axes;                          ///< every axis of the workload, in its order
  std::optional<std::string> not_applicable;  ///< why this combination is recorded as skipped

  const AxisValue* find(std::string_view axis) const noexcept;
  /// "microbench/saxpy pinned×direct tiny", for progress lines and messages.
  std::string label() const;
};

/// Throws InputError.
std::vector<CaseSpec> plan(const Request& request);

/// Throws InputError unless a pattern matches a workload.
std::vector<const Workload*> select_workloads(const std::vector<std::string>& patterns);

}  // namespace isthmus::harness
