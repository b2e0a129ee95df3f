#pragma once

// Stopping rules, which decide when a reading has enough samples.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "harness/measure/results/result.hpp"
#include "harness/plan/sampling.hpp"

namespace isthmus::harness {

/// State of a reading after each sample, as seen by the stopping rule.
struct SamplesSoFar {
  std::size_t taken;  ///< number of samples of each series
  int most;           ///< maximum number of samples, as requested or by the adaptive rule
  double seconds;     ///< time since the first sample began
  double least_time;  ///< minimum seconds of sampling of an adaptive reading
  bool over_budget;   ///< the case's budget, or this reading's share of it, is used up
  bool emulated;      ///< device times are meaningless
  const SamplingOptions& sampling;
  std::span<const Series> series;

  bool adaptive() const { return !sampling.samples && !emulated; }
};

/// Function that returns why sampling ends after the current sample; nullopt if another sample is taken.
using StoppingRule = std::function<std::optional<Stop>(const SamplesSoFar&)>;

/// Ends sampling once each median is settled, or the maximum number of samples or the budget is reached
/// (docs/method.md).
std::optional<Stop> end_when_settled(const SamplesSoFar& so_far);

}  // namespace isthmus::harness
