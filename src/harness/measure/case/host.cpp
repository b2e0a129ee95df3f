#include "harness/measure/case/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/measure/inputs/inputs.hpp"
#include "harness/measure/passes/measurement.hpp"
#include "harness/measure/passes/sampler.hpp"

namespace isthmus::harness {

// --- declarations ------------------------------------------------------------------------------------

const InputFile& Host::input_file() {
  auto& known = state_.declared.file;
  if (known) return *known;
  auto file = open_input_file(state_.spec);
  const auto& facts = state_.result.input_file;
  if (!state_.footprint_only && (!facts || facts->sha256 != file.sha256()))
    throw std::runtime_error(
        fmt::format("the file {} changed while it was read; run again when nothing writes to it", file.path()));
  return known.emplace(std::move(file));
}

std::shared_ptr<const void> Host::shared_input(const std::string& name, const MakeShared& make) {
  if (state_.footprint_only && state_.set) throw FootprintKnown{};
  if (state_.footprint_only)
    throw std::logic_error(name + " is used before measure(): its size must depend only on the axes");
  const ScopedPhase making(state_, "shared", Part::inputs);
  return harness::shared_input(state_.inputs_name(), name, make);
}

void Host::add(ElementCheck check) {
  if (state_.measured && state_.set) {
    const ScopedPhase verifying(state_, "", Part::verifying);
    state_.verifier.check_fully(*state_.set, check);
  }
  state_.verifier.add(std::move(check));
}

void Host::add(OwnCheck check) {
  if (state_.measured || state_.sampled) {
    const ScopedPhase verifying(state_, "", Part::verifying);
    state_.verifier.check_own(check);
  }
  state_.verifier.add(std::move(check));
}

void Host::kernel(device::KernelInfo info, const device::LaunchShape& shape) {
  state_.result.kernels.push_back({.info = std::move(info), .shape = shape, .traffic = {}, .seconds = {}});
}

device::Stream& Host::stream() {
  if (!state_.stream) state_.stream.emplace();
  return *state_.stream;
}

// --- measuring ---------------------------------------------------------------------------------------

void Host::measure(Control control, std::function<void(Run&)> body, const PagedBuffers& buffers) {
  const ScopedPhase at_work(state_, "", Part::overhead);
  state_.measure(control, std::move(body), buffers);
}

void Host::needs(std::size_t host_bytes, std::size_t device_bytes) {
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

void Host::once(Metric metric, double value) {
  if (state_.footprint_only) throw FootprintKnown{};
  if (!std::isfinite(value))
    throw std::runtime_error(fmt::format("metric {} is {}, which is not a finite number", metric.name, value));
  state_.refuse_known(metric.name);
  auto series = series_of(std::move(metric));
  series.samples = {value};
  series.stop = Stop::single;
  state_.result.metrics.push_back(std::move(series));
}

/// Takes one sample. `body` stores its batch size and warnings in state_.sample.
Taken Host::take_sample(std::span<const Series> series, const std::function<void()>& prepare,
                        const std::function<std::vector<double>()>& body, Part part, std::size_t index) {
  {
    const ScopedPhase preparing(state_, "", Part::inputs);
    prepare();
  }
  const ScopedPhase piece(state_, "sample", part, index);
  state_.sample.emplace();
  Taken taken;
  taken.values = body();
  for (std::size_t i = 0; i < std::min(series.size(), taken.values.size()); ++i) {
    if (!std::isfinite(taken.values[i]))
      throw std::runtime_error(fmt::format("metric {} is {}; its timing is wrong", series[i].name, taken.values[i]));
  }
  taken.invalid = std::move(state_.sample->invalid);
  taken.batch = state_.sample->batch;
  return taken;
}

void Host::sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
                  const std::function<std::vector<double>()>& body) {
  const ScopedPhase at_work(state_, "", Part::overhead);
  if (state_.footprint_only) throw FootprintKnown{};
  std::vector<Series> all;
  for (auto& metric : metrics) {
    state_.refuse_known(metric.name);
    all.push_back(series_of(std::move(metric)));
    all.back().warmups = state_.warmups();
  }
  state_.end_if_over_budget("making the inputs");
  int warmups = 0;
  for (; warmups < state_.warmups() && !interrupted() && !state_.team.any(state_.asked_budget_is_over()); ++warmups)
    take_sample(all, prepare, body, Part::warmups, 0);
  for (auto& series : all) series.warmups = warmups;
  sample_all(state_, all, {.most = state_.most_samples()},
             [&](std::size_t index) { return take_sample(all, prepare, body, Part::samples, index); });
  state_.sample.reset();
  for (auto& series : all) {
    if (!series.samples.empty()) state_.result.metrics.push_back(std::move(series));
  }
  state_.sampled = true;
  // Checks may refer to objects on the workload's stack, so they run while these exist.
  const ScopedPhase verifying(state_, "", Part::verifying);
  state_.verifier.check_own();
}

void Host::limit(int most_samples, int most_warmups) {
  state_.sampling.most_samples = std::min(state_.sampling.most_samples, most_samples);
  state_.sampling.warmups = state_.sampling.warmups.value_or(std::min(state_.warmups(), most_warmups));
}

void Host::batch(int operations) {
  if (!state_.sample) throw std::logic_error("batch() is called outside the body of sample()");
  state_.sample->batch = operations;
}

void Host::invalidate(std::string code, std::string message) {
  if (!state_.sample) throw std::logic_error("invalidate() is called outside the body of sample()");
  state_.sample->invalid.push_back({std::move(code), std::move(message), {}});
}

double Host::least_seconds(std::string_view timer) const {
  return state_.sampling.least_ticks * timer_tick(timer);
}

}  // namespace isthmus::harness
