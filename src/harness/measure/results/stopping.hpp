#pragma once

// When a reading has enough samples.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "harness/measure/results/result.hpp"
#include "harness/plan/sampling.hpp"

namespace isthmus::harness {

/// State of a reading after each sample, for the stopping rule.
struct SamplesSoFar {
  std::size_t taken;  ///< samples of each series
  int most;           ///< samples at most, as asked for or as the adaptive rule has it
  double seconds;     ///< since the first sample began
  double least_time;  ///< seconds for which an adaptive reading takes samples at least
  bool over_budget;   ///< the case's seconds are over, or the share of them that this reading has
  bool emulated;      ///< device times mean nothing
  const SamplingOptions& sampling;
  std::span<const Series> series;

  bool adaptive() const { return !sampling.samples && !emulated; }
};

/// Returns why sampling ends after the sample; nullopt where another is taken.
using StoppingRule = std::function<std::optional<Stop>(const SamplesSoFar&)>;

/// Ends once each median is settled, or where the samples or seconds are used up (docs/method.md).
std::optional<Stop> end_when_settled(const SamplesSoFar& so_far);

}  // namespace isthmus::harness
