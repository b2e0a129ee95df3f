#include "harness/measure/results/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "workload/clock.hpp"

namespace isthmus::harness {

double timer_tick(std::string_view timer) {
  constexpr double kClockTick = 100e-9;  // maximum time between two successive calls of now()
  if (timer == "event") return device::timer_tick();
  if (timer == "clock") return kClockTick;
  if (timer == "none") return 0;
  throw std::logic_error(fmt::format("there is no timer '{}'; choose event, clock or none", timer));
}

Series Series::of(std::string_view name, std::string_view timer, std::string_view unit) {
  Series series;
  series.name = name;
  series.timer = timer;
  series.unit = unit;
  series.tick = timer_tick(timer);
  return series;
}

std::vector<double> Series::valid() const {
  std::vector<double> values;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!std::binary_search(invalid.begin(), invalid.end(), i)) values.push_back(samples[i]);
  }
  return values;
}

const Series* CaseResult::find(std::string_view metric) const noexcept {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return m.name == metric; });
  return found == metrics.end() ? nullptr : &*found;
}

Series* CaseResult::find(std::string_view metric) noexcept {
  return const_cast<Series*>(std::as_const(*this).find(metric));
}

Series& CaseResult::add(std::string_view metric, std::string_view timer, std::string_view unit) {
  return metrics.emplace_back(Series::of(metric, timer, unit));
}

void CaseResult::warn(std::string code, std::string message, std::vector<std::size_t> samples) {
  const auto same = std::find_if(warnings.begin(), warnings.end(),
                                 [&](const auto& w) { return w.code == code && w.message == message; });
  if (same == warnings.end()) {
    warnings.push_back({std::move(code), std::move(message), std::move(samples)});
    return;
  }
  for (const auto sample : samples) {
    if (std::find(same->samples.begin(), same->samples.end(), sample) == same->samples.end())
      same->samples.push_back(sample);
  }
}

}  // namespace isthmus::harness
