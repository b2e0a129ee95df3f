#pragma once

// What the workloads of several ranks have in common.

#include <algorithm>

#include "workload/team.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::transfer {

/// How often to repeat, on every rank, what takes the slowest of them `seconds`: until leaving the barrier, which ranks
/// do some microseconds apart, is less than a hundredth of a sample. At most `most` times.
inline int repetitions(workload::Case& c, double seconds, int most) {
  constexpr double kLongEnough = 2e-3;
  const auto all = c.team().exchange(seconds);
  const double slowest = std::max(*std::max_element(all.begin(), all.end()), 1e-9);
  if (c.emulated()) return 1;
  return static_cast<int>(std::clamp(kLongEnough / slowest + 1, 1.0, static_cast<double>(most)));
}

/// Of a rate between ranks.
inline constexpr const char* kPathUnknown = "the link between the ranks is unknown";

}  // namespace isthmus::microbench::transfer
