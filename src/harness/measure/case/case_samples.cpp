// What a workload's own readings ask of its Case, and how they are timed.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/measure/passes/case_state.hpp"
#include "harness/measure/passes/measurement.hpp"
#include "harness/measure/passes/sampler.hpp"

namespace isthmus::workload {

using namespace harness;

void Case::measure(Control control, std::function<void(Run&)> body, const PagedBuffers& buffers) {
  const Watched at_work(state_, "", Part::overhead);
  if (state_.measured) throw std::logic_error("a case measures once");
  state_.measure(control, std::move(body), buffers);
}

void Case::needs(std::size_t host_bytes, std::size_t device_bytes) {
  state_.needed_host_bytes = host_bytes;
  state_.needed_device_bytes = device_bytes;
  state_.check_footprint(host_bytes, device_bytes);
  if (state_.footprint_only) throw FootprintKnown{};
  state_.result.peak_device_bytes = std::max(state_.result.peak_device_bytes, device_bytes);
}

namespace {

Series series_of(Metric metric) {
  Series series;
  series.name = std::move(metric.name);
  series.unit = std::move(metric.unit);
  series.better = metric.better;
  series.timer = std::move(metric.timer);
  series.direction = std::move(metric.direction);
  series.tick = timer_tick(series.timer);
  if (metric.bytes_needed > 0) series.bytes_needed = metric.bytes_needed;
  if (metric.bytes_moved > 0) series.bytes_moved = metric.bytes_moved;
  auto& [bound, source] = metric.bound;
  if (bound) {
    series.limit = Limit{*bound, std::move(source)};
  } else {
    series.limit_reason = source.empty() ? "the workload states none" : std::move(source);
  }
  return series;
}

}  // namespace

void Case::sample(Metric metric, const std::function<double()>& body) {
  sample(std::vector<Metric>{std::move(metric)}, [&body] { return std::vector<double>{body()}; });
}

void Case::sample(std::vector<Metric> metrics, const std::function<std::vector<double>()>& body) {
  sample(std::move(metrics), [] {}, body);
}

void Case::sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
                  const std::function<std::vector<double>()>& body) {
  const Watched at_work(state_, "", Part::overhead);
  if (state_.footprint_only) throw FootprintKnown{};
  if (metrics.empty()) throw std::logic_error("sample() is given no metric");
  std::vector<Series> all;
  for (auto& metric : metrics) {
    state_.refuse_known(metric.name);
    all.push_back(series_of(std::move(metric)));
    all.back().warmups = state_.warmups();
  }

  // What the body says of the sample it takes is in state_.sample.
  const auto take = [&](Part part, std::size_t index) {
    {
      const Watched preparing(state_, "", Part::inputs);
      prepare();
    }
    const Watched piece(state_, "sample", part, index);
    state_.sample.emplace();
    Taken taken;
    taken.values = body();
    for (std::size_t i = 0; i < std::min(all.size(), taken.values.size()); ++i) {
      if (!std::isfinite(taken.values[i]))
        throw std::runtime_error(
            fmt::format("metric {} came out as {}; its timing is wrong", all[i].name, taken.values[i]));
    }
    taken.spoilt = std::move(state_.sample->spoilt);
    taken.batch = state_.sample->batch;
    return taken;
  };
  state_.end_if_over_budget("making the inputs");
  int warmups = 0;
  for (; warmups < state_.warmups() && !interrupted() && !state_.team.any(state_.asked_budget_is_over()); ++warmups)
    take(Part::warmups, 0);
  for (auto& series : all) series.warmups = warmups;
  sample_all(state_, all, {.most = state_.most_samples()},
             [&](std::size_t index) { return take(Part::samples, index); });
  state_.sample.reset();
  for (auto& series : all) {
    if (!series.samples.empty()) state_.result.metrics.push_back(std::move(series));
  }
  state_.sampled = true;
  // Checks may refer to what stands on the workload's stack, so they run while it is there.
  const Watched verifying(state_, "", Part::verifying);
  state_.verifier.check_own();
}

void Case::limit_sampling(int most_samples, int most_warmups) {
  state_.sampling.most_samples = std::min(state_.sampling.most_samples, most_samples);
  state_.sampling.warmups = state_.sampling.warmups.value_or(std::min(state_.warmups(), most_warmups));
}

bool Case::interrupted() const {
  return state_.team.interrupted();
}
void Case::end_if_interrupted() const {
  if (interrupted()) throw Interrupted{};
}

void Case::batch(int operations) {
  if (!state_.sample) throw std::logic_error("batch() is called outside the body of sample()");
  if (operations < 1) throw std::logic_error("a batch has at least one operation");
  state_.sample->batch = operations;
}

void Case::spoil(std::string code, std::string message) {
  if (!state_.sample) throw std::logic_error("spoil() is called outside the body of sample()");
  state_.sample->spoilt.push_back({std::move(code), std::move(message), {}});
}

void Case::observe(Metric metric, double value) {
  metric.timer = "none";
  once(std::move(metric), value);
}

void Case::once(Metric metric, double value) {
  if (state_.footprint_only) throw FootprintKnown{};
  if (!std::isfinite(value))
    throw std::runtime_error(fmt::format("metric {} came out as {}, which is no value", metric.name, value));
  state_.refuse_known(metric.name);
  auto series = series_of(std::move(metric));
  series.samples = {value};
  series.stop = Stop::single;
  state_.result.metrics.push_back(std::move(series));
}

bool Case::emulated() const {
  return state_.emulated;
}
bool Case::latch() const {
  return state_.wants_latch();
}
double Case::latch_timeout() const {
  state_.consult("--latch-timeout");
  return state_.sampling.latch_timeout;
}
double Case::least_seconds(std::string_view timer) const {
  return state_.emulated ? 0 : state_.sampling.least_ticks * timer_tick(timer);
}
int Case::batch_for(std::string_view timer, int most, const std::function<double(int)>& seconds_of) const {
  const double enough = 2 * least_seconds(timer);  // readings differ
  if (!(enough > 0)) return 1;
  seconds_of(1);  // the first is slower than those that follow
  const auto shortest_of = [&](int times) {
    double shortest = seconds_of(times);
    for (int i = 0; i < 2 && shortest >= enough && shortest < 10 * enough; ++i)  // a pause makes one look long
      shortest = std::min(shortest, seconds_of(times));
    return shortest;
  };
  int times = 1;
  while (times < most) {
    end_if_interrupted();
    state_.end_if_over_budget("finding a batch");
    const double shortest = shortest_of(times);
    if (shortest >= enough) break;
    const double wanted = 1.25 * enough / std::max(shortest, 1e-9) * times;
    times = static_cast<int>(std::clamp(std::ceil(wanted), times + 1.0, static_cast<double>(most)));
  }
  return times;
}
int Case::largest_batch() const {
  return state_.sampling.largest_batch;
}
int Case::numa_node() const {
  return state_.result.numa_node;
}
Team& Case::team() {
  return state_.team;
}

}  // namespace isthmus::workload
