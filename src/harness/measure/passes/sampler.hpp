#pragma once

// Takes samples until they suffice: of the phased and the overlapped reading, and of a workload's own readings.

#include <functional>
#include <span>
#include <vector>

#include "harness/measure/passes/case_state.hpp"

namespace isthmus::harness {

/// One sample. The device spoils it (Monitor), a latch that went on too early (StreamTimer), an observer, or the
/// workload (Sampling::invalidate); Series::valid() leaves it out.
struct Taken {
  std::vector<double> values{};   ///< one of each series
  std::vector<Warning> spoilt{};  ///< why it does not count
  int batch = 0;                  ///< operations that were timed together; 0: as the series say
};

/// Bounds of one reading, in addition to the case's stopping rule.
struct Reading {
  int most = 0;             ///< samples
  double budget_share = 1;  ///< of the case's seconds, which have run since its start
  /// Asked after each sample; false ends the reading. `last`: no sample follows.
  std::function<bool(bool last)> go_on = {};
};

/// Samples all series together, each value by value: `take(index)` takes one sample of every one. A sample that the
/// body or an observer spoils is invalid in all of them, and does not settle a median. Of several ranks, each takes as
/// many as rank 0.
void sample_all(CaseState& state, std::span<Series> all, const Reading& reading,
                const std::function<Taken(std::size_t index)>& take);

}  // namespace isthmus::harness
