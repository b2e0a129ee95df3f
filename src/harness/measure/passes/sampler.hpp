#pragma once

// Sampling until there are enough samples. It is used for the phased and the overlapped reading, and for readings that
// a workload takes with sample().

#include <functional>
#include <span>
#include <vector>

#include "harness/measure/passes/case_state.hpp"

namespace isthmus::harness {

/// One sample. It can be invalidated by the device's state (Monitor), a latch that timed out (StreamTimer), an observer
/// or the workload (Sampling::invalidate); Series::valid() omits invalid samples.
struct Taken {
  std::vector<double> values{};    ///< one for each series
  std::vector<Warning> invalid{};  ///< reasons why the sample is invalid
  int batch = 0;                   ///< operations that were timed together; 0 if the series' batch size applies
};

/// Limits of one reading, in addition to the case's stopping rule.
struct Reading {
  int most = 0;             ///< maximum number of samples
  double budget_share = 1;  ///< share of the case's budget, counted from the start of the case
  /// Function called after each sample; if it returns false, the reading ends. `last`: no sample follows.
  std::function<bool(bool last)> go_on = {};
};

/// Samples all series together: `take(index)` takes one sample of each. A sample that the body or an observer
/// invalidates is invalid in all series, and does not count towards a settled median. Each of several ranks takes as
/// many samples as rank 0.
void sample_all(CaseState& state, std::span<Series> all, const Reading& reading,
                const std::function<Taken(std::size_t index)>& take);

}  // namespace isthmus::harness
