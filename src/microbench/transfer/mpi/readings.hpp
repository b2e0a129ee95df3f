#pragma once

// Code shared by the workloads of several ranks.

#include <algorithm>

#include "workload/team.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::transfer {

/// Returns the number of repetitions in a sample, the same on every rank and at most `most`, of an operation that takes
/// `seconds` on this rank. Ranks leave the barrier some microseconds apart, which must be less than a hundredth of a
/// sample on the slowest rank.
inline int repetitions(workload::Case& c, double seconds, int most) {
  constexpr double kLongEnough = 2e-3;
  const auto all = c.team().exchange(seconds);
  const double slowest = std::max(*std::max_element(all.begin(), all.end()), 1e-9);
  if (c.emulated()) return 1;
  return static_cast<int>(std::clamp(kLongEnough / slowest + 1, 1.0, static_cast<double>(most)));
}

/// Reason why rates between ranks have no limit.
inline constexpr const char* kPathUnknown = "the link between the ranks is unknown";

}  // namespace isthmus::microbench::transfer
