#include "harness/measure/passes/sampler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "harness/plan/names.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

namespace {

/// Returns the indices of the samples that are invalid on any rank.
std::set<std::size_t> on_any_rank(Team& team, const std::set<std::size_t>& samples) {
  if (team.size() == 1) return samples;
  std::set<std::size_t> all;
  for (const auto& list : team.exchange(fmt::format("{}", fmt::join(samples, ",")))) {
    for (const auto& index : split(list, ',')) {
      if (!index.empty()) all.insert(std::stoul(index));
    }
  }
  return all;
}

/// Applies the case's stopping rule. Rank 0 decides for all ranks of the case.
std::optional<Stop> stop_after(CaseState& s, std::size_t taken, double seconds, const Reading& reading,
                               std::span<const Series> all) {
  const auto own = s.stopping_rule({.taken = taken,
                                    .most = reading.most,
                                    .seconds = seconds,
                                    .least_time = s.adaptive() ? s.least_time() : 0,
                                    .over_budget = s.over_budget(reading.budget_share),
                                    .emulated = s.emulated,
                                    .sampling = s.sampling,
                                    .series = all});
  constexpr int kGoOn = -1;
  const int decided = static_cast<int>(s.team.first(own ? static_cast<int>(*own) : kGoOn));
  if (s.team.interrupted()) return Stop::interrupted;
  return decided == kGoOn ? std::nullopt : std::optional(static_cast<Stop>(decided));
}

}  // namespace

void sample_all(CaseState& s, std::span<Series> all, const Reading& reading,
                const std::function<Taken(std::size_t index)>& take) {
  std::set<std::size_t> invalid;
  std::optional<Stop> stop;
  const double since = now();
  if (s.team.interrupted()) stop = Stop::interrupted;
  for (std::size_t index = 0; !stop; ++index) {
    Taken taken;
    try {
      taken = take(index);
    } catch (const Interrupted&) {
      break;
    }
    if (taken.values.size() != all.size()) {
      std::vector<std::string> names;
      for (const auto& series : all) names.push_back(series.name);
      throw std::logic_error(fmt::format("there are {} values for {}: a sample has one of each", taken.values.size(),
                                         join(names, " and ")));
    }
    for (const auto& warning : taken.invalid) s.result.warn(warning.code, warning.message, {index});
    if (s.team.any(!taken.invalid.empty())) invalid.insert(index);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].samples.push_back(taken.values[i]);
      if (taken.batch > 0) all[i].batch = taken.batch;
      all[i].invalid.assign(invalid.begin(), invalid.end());
    }
    stop = stop_after(s, index + 1, now() - since, reading, all);
    for (auto* observer : s.observers) {
      for (const auto& warning : observer->invalid(index, stop.has_value())) {
        s.result.warn(warning.code, warning.message, warning.samples);
        invalid.insert(warning.samples.begin(), warning.samples.end());
      }
    }
    if (reading.go_on && !reading.go_on(stop.has_value()) && !stop) break;
  }
  if (s.team.interrupted()) {
    stop = Stop::interrupted;
    s.result.interrupted = true;
  }
  const auto bad = on_any_rank(s.team, invalid);
  for (auto& series : all) {
    series.invalid.assign(bad.begin(), bad.end());
    series.stop = stop.value_or(Stop::samples);
    s.judge_ticks(series);
  }
}

}  // namespace isthmus::harness
