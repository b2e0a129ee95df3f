#pragma once

// Duration of cases, estimated before they run. It is a rough guess from rates of ordinary hardware, which only
// distinguishes seconds, minutes and hours.

#include <optional>
#include <string>

#include "harness/plan/sampling.hpp"

namespace isthmus::harness {

/// Memory and traffic of a case, derived from its declarations alone.
struct CaseFootprint {
  std::size_t host_bytes = 0, device_bytes = 0;
  Traffic traffic;
  std::optional<std::string> skipped;  ///< reason why the case would not run
  std::optional<std::string> failed;   ///< error that would occur before the case runs
};

/// Returns the seconds that one case takes: 0 if it will not run, nullopt if unknown. Without a footprint, only a
/// workload's own estimate() yields a duration, because computing the footprint runs the workload's declarations, which
/// may take a while.
std::optional<double> estimate_seconds(const CaseSpec& spec, const SamplingOptions& sampling,
                                       const std::optional<CaseFootprint>& footprint = std::nullopt);

/// Sum of the estimates of several cases, and the number of cases of unknown duration.
struct Estimate {
  double seconds = 0;
  std::size_t cases = 0, unknown = 0;

  /// Adds a case that runs `times` times.
  void add(std::optional<double> case_seconds, int times = 1);
  /// Returns a text such as "120 cases, about 3 min".
  std::string sentence() const;
};

/// Returns a text such as "less than 1 s", "about 45 s", "about 5 min" or "about 1.5 h", with only as many digits as a
/// guess justifies.
std::string about(double seconds);

}  // namespace isthmus::harness
