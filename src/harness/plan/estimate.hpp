#pragma once

// How long cases take, before they run. A rough guess from rates of ordinary hardware: it tells seconds from minutes
// from hours, no more.

#include <optional>
#include <string>

#include "harness/plan/sampling.hpp"

namespace isthmus::harness {

/// What a case would take, from its declarations alone.
struct CaseFootprint {
  std::size_t host_bytes = 0, device_bytes = 0;
  Traffic traffic;
  std::optional<std::string> skipped;  ///< why it would not run
  std::optional<std::string> failed;   ///< what would go wrong before it runs
};

/// Seconds of one case, none of one that will not run; nullopt where unknown. Without a footprint only a
/// workload's own estimate() says how long it takes: finding the footprint runs the workload's declarations, which may
/// take a while by itself.
std::optional<double> estimate_seconds(const CaseSpec& spec, const SamplingOptions& sampling,
                                       const std::optional<CaseFootprint>& footprint = std::nullopt);

/// The sum over cases, and for how many of them nothing is known.
struct Estimate {
  double seconds = 0;
  std::size_t cases = 0, unknown = 0;

  /// A case that runs so many times.
  void add(std::optional<double> case_seconds, int times = 1);
  /// "120 cases, about 3 min".
  std::string sentence() const;
};

/// "less than 1 s", "about 45 s", "about 5 min", "about 1.5 h": as many digits as a guess is worth.
std::string about(double seconds);

}  // namespace isthmus::harness
