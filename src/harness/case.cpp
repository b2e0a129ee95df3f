#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "harness/case_state.hpp"
#include "harness/host_memory.hpp"
#include "harness/names.hpp"
#include "harness/statistics.hpp"
#include "memory/parallel.hpp"

namespace isthmus::harness {

// --- what was asked for ------------------------------------------------------------------------------

std::int64_t Case::integer(std::string_view axis) const {
  return state_.spec.integer(axis);
}

std::size_t Case::extent(std::string_view axis) const {
  const auto number = integer(axis);
  if (number < 1)
    throw Skip(fmt::format("axis {} is {}, and this case counts with it: it must be at least 1", axis, number),
               SkipKind::not_applicable);
  return static_cast<std::size_t>(number);
}

std::string_view Case::choice(std::string_view axis) const {
  return state_.spec.choice(axis);
}

memory::Placement Case::placement() const {
  if (!state_.spec.placement)
    throw std::logic_error(state_.spec.workload->name() + " is registered without placements");
  return *state_.spec.placement;
}

Staging Case::staging() const {
  if (!state_.spec.staging) throw std::logic_error(state_.spec.workload->name() + " is registered without stagings");
  return *state_.spec.staging;
}

std::uint64_t Case::seed() const {
  return state_.seed;
}

const device::DeviceInfo& Case::device() const {
  if (!state_.device) throw Skip("there is no device");
  return *state_.device;
}

device::Stream& Case::stream() {
  if (!state_.stream) state_.stream.emplace();
  return *state_.stream;
}

// --- declarations ------------------------------------------------------------------------------------

std::size_t Case::declare_buffer(memory::BufferSpec spec, std::size_t element_bytes, std::size_t columns,
                                 std::size_t pitch, Fill fill) {
  if (state_.measured) throw std::logic_error("buffer " + spec.name + " is declared after measure()");
  if (spec.bytes == 0) throw Skip("buffer " + spec.name + " would be empty", SkipKind::not_applicable);
  state_.buffers.push_back({std::move(spec), element_bytes, columns, pitch, std::move(fill)});
  return state_.buffers.size() - 1;
}

memory::BufferSet* const& Case::buffers() const {
  return state_.set_pointer;
}

void Case::chunks(std::size_t units) {
  state_.chunk_units = units;
}

void Case::traffic(const Traffic& traffic) {
  state_.result.traffic = traffic;
}

void Case::kernel(device::KernelInfo info, std::optional<device::LaunchShape> shape) {
  state_.result.kernels.push_back({std::move(info), shape});
}

void Case::fallback(std::string reason) {
  state_.result.fallback = std::move(reason);
}

void Case::note(const std::string& name, std::string text) {
  state_.result.notes[name] = std::move(text);
}

void Case::warn(std::string code, std::string message) {
  state_.result.warn(std::move(code), std::move(message));
}

void Case::add_check(std::size_t buffer, std::size_t element_bytes, bool floating, Element element, Tolerance tolerance,
                     std::string method) {
  const auto& declared = state_.buffers.at(buffer);
  ElementCheck check{declared.spec.name, buffer,           element_bytes,       floating,
                     declared.columns,   declared.pitch,   declared.elements(), std::move(element),
                     tolerance,          std::move(method)};
  if (state_.measured && state_.set) {
    const Accounted verifying(state_.account.verifying);
    state_.verifier.check_fully(*state_.set, check);
  }
  state_.verifier.add(std::move(check));
}

void Case::verify(std::string method, const std::function<double()>& error, double tolerance) {
  OwnCheck check{std::move(method), error, tolerance};
  if (state_.measured || state_.sampled) {
    const Accounted verifying(state_.account.verifying);
    state_.verifier.check_own(check);
  }
  state_.verifier.add(std::move(check));
}

// --- measuring ---------------------------------------------------------------------------------------

namespace {

/// The harness works; the workload's own code goes on when this ends.
class HarnessAtWork {
 public:
  explicit HarnessAtWork(Case::State& state) : state_(state) { state_.own_code_ends(); }
  ~HarnessAtWork() { state_.own_code_begins(); }
  HarnessAtWork(const HarnessAtWork&) = delete;
  HarnessAtWork& operator=(const HarnessAtWork&) = delete;

 private:
  Case::State& state_;
};

}  // namespace

void Case::measure(const std::function<void(const Launch&)>& body) {
  const HarnessAtWork at_work(state_);
  if (state_.measured) throw std::logic_error("a case measures once");
  state_.run_measurement(body);
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
  if (metric.limit) {
    series.limit = Limit{*metric.limit, std::move(metric.limit_source)};
  } else {
    series.limit_reason = metric.limit_reason.empty() ? "the workload states none" : std::move(metric.limit_reason);
  }
  return series;
}

/// The samples that are spoilt on this rank or another.
std::vector<std::size_t> on_any_rank(Team& team, const std::vector<std::size_t>& samples) {
  if (team.size() == 1) return samples;
  std::vector<std::size_t> all;
  for (const auto& list : team.exchange(fmt::format("{}", fmt::join(samples, ",")))) {
    for (const auto& index : split(list, ',')) {
      if (!index.empty()) all.push_back(std::stoul(index));
    }
  }
  return all;
}

}  // namespace

void Case::sample(Metric metric, const std::function<double()>& body) {
  sample(std::vector<Metric>{std::move(metric)}, [&body] { return std::vector<double>{body()}; });
}

void Case::sample(std::vector<Metric> metrics, const std::function<std::vector<double>()>& body) {
  const HarnessAtWork at_work(state_);
  if (state_.footprint_only) throw FootprintKnown{};
  std::vector<Series> all;
  for (auto& metric : metrics) {
    all.push_back(series_of(std::move(metric)));
    all.back().warmups = state_.warmups();
  }
  if (all.empty()) throw std::logic_error("sample() is given no metric");
  std::vector<std::string> names;
  for (const auto& series : all) names.push_back(series.name);
  const auto name = join(names, " and ");

  // Takes one sample; what its body says of it is in state_.sample afterwards.
  const auto take = [&](double& part) {
    const Accounted accounted(part);
    state_.sample.emplace();
    const auto values = body();
    if (values.size() != all.size())
      throw std::logic_error(
          fmt::format("{} values came out for {}: the body returns one of each", values.size(), name));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!std::isfinite(values[i]))
        throw std::runtime_error(fmt::format("metric {} came out as {}; its timing is wrong", all[i].name, values[i]));
    }
    return values;
  };
  for (int i = 0; i < all.front().warmups && !state_.team.interrupted(); ++i) take(state_.account.warmups);

  int batch = 1;
  std::vector<std::size_t> invalid, throttled;
  state_.sampling_begins();
  std::optional<Stop> stop;
  for (std::size_t index = 0; !stop && !state_.team.interrupted(); ++index) {
    const auto values = take(state_.account.samples);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].samples.push_back(values[i]);
    batch = state_.sample->batch;
    for (auto& warning : state_.sample->spoilt)
      state_.result.warn(std::move(warning.code), std::move(warning.message), {index});
    if (state_.team.any(!state_.sample->spoilt.empty())) invalid.push_back(index);
    for (auto& series : all) series.invalid = invalid;
    const auto settled = [&all] {
      return std::all_of(all.begin(), all.end(), [](const auto& series) { return median_is_settled(series.valid()); });
    };
    stop = state_.stop(index + 1, state_.most_samples(), settled);
    for (const auto spoilt : state_.monitor.sample_done(index, stop.has_value())) throttled.push_back(spoilt);
  }
  state_.sample.reset();
  if (state_.team.interrupted()) {
    stop = Stop::interrupted;
    state_.result.interrupted = true;
  }
  if (!throttled.empty())
    state_.result.warn("throttled", "the device slowed itself down while " + name + " was sampled", throttled);
  throttled = on_any_rank(state_.team, throttled);
  invalid.insert(invalid.end(), throttled.begin(), throttled.end());
  std::sort(invalid.begin(), invalid.end());
  invalid.erase(std::unique(invalid.begin(), invalid.end()), invalid.end());
  for (auto& series : all) {
    if (series.samples.empty()) continue;
    series.invalid = invalid;
    series.stop = *stop;
    series.batch = batch;
    state_.judge_ticks(series);
    state_.result.metrics.push_back(std::move(series));
  }
  state_.sampled = true;
  // Checks may refer to what stands on the workload's stack, so they run while it is there.
  const Accounted verifying(state_.account.verifying);
  state_.verifier.check_own();
}

void Case::sparing(int samples, int warmups) {
  state_.sampling.most_samples = std::min(state_.sampling.most_samples, samples);
  state_.sampling.warmups = state_.sampling.warmups.value_or(std::min(state_.warmups(), warmups));
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

// --- state -------------------------------------------------------------------------------------------

SamplingOptions sampling_of(const CaseSpec& spec, SamplingOptions asked) {
  const auto* preset = spec.preset ? spec.workload->description().find_preset(*spec.preset) : nullptr;
  if (preset != nullptr && !asked.least_time) asked.least_time = preset->least_time;
  // Profilers may run kernels one by one, so a latch would wait for its time-out; and what they count must not hang on
  // how long something took.
  if (std::getenv("ISTHMUS_PROFILER") != nullptr) {
    asked.latch = false;
    asked.largest_batch = 1;
  }
  return asked;
}

double timer_tick(std::string_view timer) {
  constexpr double kClockTick = 100e-9;  // two calls of now() are this far apart at worst
  if (timer == "event") return device::timer_tick();
  if (timer == "clock") return kClockTick;
  if (timer == "none") return 0;
  throw std::logic_error(fmt::format("there is no timer '{}'; choose event, clock or none", timer));
}

bool Case::State::wants_latch() {
  if (!sampling.latch) result.warn("no_latch", "no latch held the stream, as asked for: times include submission");
  return sampling.latch;
}

namespace {

/// What the timer measured for one operation; nullopt where the value does not tell.
std::optional<double> seconds_of(const Series& metric, double value) {
  if (metric.unit == "s") return value;
  if (metric.unit == "1/s" && value > 0) return 1 / value;
  if (metric.unit == "B/s" && value > 0 && metric.bytes_moved) return *metric.bytes_moved / value;
  return std::nullopt;
}

}  // namespace

void Case::State::judge_ticks(Series& metric) {
  if (metric.samples.empty() || metric.tick <= 0 || emulated) return;
  std::optional<double> shortest;
  for (const double value : metric.valid()) {
    const auto seconds = seconds_of(metric, value);
    if (seconds) shortest = std::min(shortest.value_or(*seconds), *seconds);
  }
  metric.coarse = shortest && *shortest * metric.batch < sampling.least_ticks * metric.tick;
  if (metric.coarse)
    result.warn("timer_coarse", fmt::format("{} is shorter than {} ticks of its timer, so its interval is not given",
                                            metric.name, sampling.least_ticks));
}

void Case::State::own_code_begins() {
  own_code_begin_ = now();
  own_code_accounted_ = account.total();
}

void Case::State::own_code_ends() {
  account.inputs += now() - own_code_begin_ - (account.total() - own_code_accounted_);
}

std::optional<Stop> Case::State::stop(std::size_t taken, int most, const std::function<bool()>& settled,
                                      double budget_share) {
  const auto own = [&]() -> std::optional<Stop> {
    if (emulated && !sampling.samples) return Stop::emulated;
    const double sampled_for = now() - sampling_since_;
    const bool long_enough = !adaptive() || sampled_for >= sampling.least_time.value_or(0);
    if (adaptive() && !sampling.least_time && sampled_for >= sampling.long_sampling)
      most = std::min(most, sampling.enough_long);
    if (adaptive() && long_enough && settled()) return Stop::interval;
    if (long_enough && taken >= static_cast<std::size_t>(most)) return Stop::samples;
    if (over_budget(budget_share)) return Stop::budget;
    return std::nullopt;
  }();
  constexpr int kGoOn = -1;
  const int decided = static_cast<int>(team.first(own ? static_cast<int>(*own) : kGoOn));
  if (team.interrupted()) return Stop::interrupted;
  return decided == kGoOn ? std::nullopt : std::optional(static_cast<Stop>(decided));
}

void Case::State::check_footprint(std::size_t host_bytes, std::size_t device_bytes) const {
  const auto host = available_host_memory();
  // A little stays for the program itself; page tables, staging buffers and the like come on top of what is asked for.
  const double usable = 0.95;
  if (host && static_cast<double>(host_bytes) > usable * static_cast<double>(*host))
    throw Skip(fmt::format("needs {} of host memory, {} are available", format_bytes(static_cast<double>(host_bytes)),
                           format_bytes(static_cast<double>(*host))),
               SkipKind::memory);
  if (!device) return;
  const auto card = device::memory_info();
  if (device_bytes + device::SpinLatch::kDeviceBytes > card.free)  // the latch is not there yet
    throw Skip(
        fmt::format("needs {} of device memory, {} of {} are free", format_bytes(static_cast<double>(device_bytes)),
                    format_bytes(static_cast<double>(card.free)), format_bytes(static_cast<double>(card.total))),
        SkipKind::memory);
}

void Case::State::fill(std::size_t index) {
  const auto& buffer = buffers[index];
  if (!buffer.fill) return;
  std::byte* host = set->host(index);
  if (buffer.columns == buffer.pitch) {
    memory::parallel_for(buffer.elements(), std::size_t{1} << 16, [&](std::size_t first, std::size_t last) {
      buffer.fill(host + first * buffer.element_bytes, first, last);
    });
    return;
  }
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 16) / buffer.pitch);
  memory::parallel_for(buffer.rows(), grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      std::byte* row_begin = host + row * buffer.pitch * buffer.element_bytes;
      buffer.fill(row_begin, row * buffer.columns, (row + 1) * buffer.columns);
      std::memset(row_begin + buffer.columns * buffer.element_bytes, 0,
                  (buffer.pitch - buffer.columns) * buffer.element_bytes);
    }
  });
}

}  // namespace isthmus::harness
