#include "harness/measure/results/stopping.hpp"

#include <algorithm>

#include "harness/measure/results/statistics.hpp"

namespace isthmus::harness {

std::optional<Stop> end_when_settled(const SamplesSoFar& so_far) {
  const auto& sampling = so_far.sampling;
  if (so_far.emulated && !sampling.samples) return Stop::emulated;
  const bool adaptive = so_far.adaptive();
  int most = so_far.most;
  if (adaptive && !sampling.least_time && so_far.seconds >= sampling.long_sampling)
    most = std::min(most, sampling.enough_long);
  if (!adaptive || so_far.seconds >= so_far.least_time) {
    const auto settled = [](const Series& series) { return median_is_settled(series.valid()); };
    if (adaptive && std::ranges::all_of(so_far.series, settled)) return Stop::interval;
    if (so_far.taken >= static_cast<std::size_t>(most)) return Stop::samples;
  }
  if (so_far.over_budget) return Stop::budget;
  return std::nullopt;
}

}  // namespace isthmus::harness
