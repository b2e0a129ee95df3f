#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/measure/case_state.hpp"
#include "harness/measure/inputs.hpp"
#include "harness/measure/measurement.hpp"
#include "harness/measure/sampler.hpp"
#include "harness/measure/statistics.hpp"
#include "harness/plan/names.hpp"
#include "memory/host_memory.hpp"
#include "memory/parallel.hpp"

namespace isthmus::workload {

using namespace harness;

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
  if (!state_.device_info) throw Skip("there is no device");
  return *state_.device_info;
}

device::Stream& Case::stream() {
  if (!state_.stream) state_.stream.emplace();
  return *state_.stream;
}

// --- declarations ------------------------------------------------------------------------------------

std::size_t Case::declare_buffer(memory::BufferSpec spec, std::size_t element_bytes, const Shape& shape, Fill fill,
                                 bool whole) {
  if (state_.measured) throw std::logic_error("buffer " + spec.name + " is declared after measure()");
  for (const auto& other : state_.buffers) {
    if (other.spec.name == spec.name)
      throw std::logic_error("two buffers are named " + spec.name +
                             ": checksums and messages could not tell them apart");
  }
  if (spec.bytes == 0) throw Skip("buffer " + spec.name + " would be empty", SkipKind::not_applicable);
  if (whole && shape.columns != shape.pitch)
    throw std::logic_error("buffer " + spec.name + " has padded rows: give a function of an element's number");
  state_.buffers.push_back({std::move(spec), element_bytes, shape, std::move(fill), whole});
  return state_.buffers.size() - 1;
}

const BufferAddresses& Case::addresses() const {
  return state_;
}

std::function<const void*()> Case::share(std::string name, std::size_t bytes, Make make) {
  for (const auto& other : state_.shared_inputs) {
    if (other.name == name)
      throw std::logic_error("two shared inputs are named " + name + ": the second would be given the first");
  }
  const auto made = std::make_shared<std::shared_ptr<const void>>();
  const auto get = [this, made, name, make = std::move(make)]() -> const void* {
    if (*made) return made->get();
    if (state_.footprint_only && state_.set) throw FootprintKnown{};
    if (state_.footprint_only)
      throw std::logic_error(name + " is looked at before measure(): its size must follow from the axes");
    const Watched making(state_, "shared", Part::inputs);
    *made = shared_input(inputs_name(state_.spec, state_.seed), name, make);
    return made->get();
  };
  state_.shared_inputs.push_back({std::move(name), bytes, get});
  if (state_.measured) get();  // declared after measuring: checks look from several threads
  return get;
}

std::size_t Case::unpadded(std::size_t buffer) const {
  return state_.buffers.at(buffer).elements();
}

const std::string& Case::name_of(std::size_t buffer) const {
  return state_.buffers.at(buffer).spec.name;
}

void Case::chunks(std::size_t units) {
  if (state_.measured) throw std::logic_error("chunks() comes before measure()");
  state_.chunk_units = units;
}

void Case::repeats(std::size_t n) {
  if (n < 1) throw std::logic_error("a body runs at least once");
  if (state_.measured) throw std::logic_error("repeats() comes before measure()");
  state_.repeats = n;
}

void Case::kernel(device::KernelInfo info, const device::LaunchShape& shape) {
  state_.result.kernels.push_back({.info = std::move(info), .shape = shape, .traffic = {}, .seconds = {}});
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

void Case::add_check(std::size_t buffer, bool floating, bool everything, Element element, Tolerance tolerance,
                     std::string method) {
  const auto& declared = state_.checked_buffer(buffer);
  ElementCheck check{declared.spec.name,
                     buffer,
                     declared.element_bytes,
                     floating,
                     everything,
                     declared.shape.columns,
                     declared.shape.pitch,
                     declared.elements(),
                     std::move(element),
                     tolerance,
                     std::move(method)};
  if (state_.measured && state_.set) {
    const Watched verifying(state_, "", Part::verifying);
    state_.verifier.check_fully(*state_.set, check);
  }
  state_.verifier.add(std::move(check));
}

void Case::add_same(std::size_t buffer) {
  const auto& declared = state_.checked_buffer(buffer);
  SameCheck check{declared.spec.name,
                  buffer,
                  declared.element_bytes,
                  declared.shape.columns,
                  declared.shape.pitch,
                  declared.shape.rows,
                  inputs_name(state_.spec, state_.seed),
                  state_.spec.label()};
  state_.verifier.add(std::move(check));
}

void Case::verify(std::string method, const std::function<double()>& error, double tolerance) {
  OwnCheck check{std::move(method), error, tolerance};
  if (state_.measured || state_.sampled) {
    const Watched verifying(state_, "", Part::verifying);
    state_.verifier.check_own(check);
  }
  state_.verifier.add(std::move(check));
}

// --- measuring ---------------------------------------------------------------------------------------

void Case::measure(Control control, std::function<void(Run&)> body) {
  const Watched at_work(state_, "", Part::overhead);
  if (state_.measured) throw std::logic_error("a case measures once");
  state_.measure(control, std::move(body));
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
  for (int i = 0; i < state_.warmups() && !state_.team.interrupted(); ++i) take(Part::warmups, 0);
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

Case::State::State(const CaseSpec& spec_, std::optional<device::DeviceInfo> device_, std::uint64_t seed_,
                   const SamplingOptions& sampling_, CaseResult& result_, Team& team_)
    : spec(spec_),
      device_info(std::move(device_)),
      seed(seed_),
      sampling(sampling_),
      result(result_),
      team(team_),
      monitor(device_info ? std::optional(device_info->index) : std::nullopt),
      observers{&monitor, &ranges, &account} {}

Case::State::~State() = default;

namespace {

/// Far from one another and from whatever there is: an address to count with, where nothing is allocated.
std::byte* made_up_address(std::size_t buffer) {
  return reinterpret_cast<std::byte*>((buffer + 1) << 44);
}

}  // namespace

std::byte* Case::State::device(std::size_t buffer) const {
  if (rehearsing) return made_up_address(buffer);
  std::byte* address = set ? set->device(buffer) : nullptr;
  if (address == nullptr)
    throw std::logic_error("buffer " + buffers.at(buffer).spec.name +
                           " has no address before measure(): ask for it inside the body");
  return address;
}

std::byte* Case::State::host(std::size_t buffer) const {
  if (rehearsing)
    throw std::logic_error("a queued body asks for the host's copy of buffer " + buffers.at(buffer).spec.name +
                           ": look at it in a check, or measure with Control::waits");
  std::byte* address = set ? set->host(buffer) : nullptr;
  if (address == nullptr)
    throw std::logic_error("buffer " + buffers.at(buffer).spec.name +
                           (buffers.at(buffer).spec.role == memory::Role::scratch
                                ? " lies on the device only: the host has none of it"
                                : " has no address before measure(): ask for it inside the body or a check"));
  return address;
}

const Case::State::Declared& Case::State::checked_buffer(std::size_t buffer) const {
  const auto& declared = buffers.at(buffer);
  if (declared.spec.role == memory::Role::scratch)
    throw std::logic_error("buffer " + declared.spec.name +
                           " lies on the device only, so no check sees it: make it an output, or read it in the body");
  return declared;
}

void Case::State::refuse_known(const std::string& metric) const {
  if (result.find(metric) != nullptr)
    throw std::logic_error("two metrics are named " + metric + ": no reader of the record could tell them apart");
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

void Case::State::check_footprint(std::size_t host_bytes, std::size_t device_bytes) const {
  const auto host = memory::available_host_memory();
  // A little stays for the program itself; page tables, staging buffers and the like come on top of what is asked for.
  const double usable = 0.95;
  if (host && static_cast<double>(host_bytes) > usable * static_cast<double>(*host)) {
    const Shortage shortage = {Shortage::Memory::host, static_cast<double>(host_bytes), static_cast<double>(*host)};
    throw Skip(fmt::format("needs {} of host memory, {} are available", memory::format_bytes(shortage.needed),
                           memory::format_bytes(shortage.free)),
               shortage);
  }
  if (!device_info) return;
  const auto card = device::memory_info();
  if (device_bytes + device::SpinLatch::kDeviceBytes > card.free) {  // the latch is not there yet
    const Shortage shortage = {Shortage::Memory::device, static_cast<double>(device_bytes),
                               static_cast<double>(card.free)};
    throw Skip(fmt::format("needs {} of device memory, {} of {} are free", memory::format_bytes(shortage.needed),
                           memory::format_bytes(shortage.free), memory::format_bytes(static_cast<double>(card.total))),
               shortage);
  }
}

void Case::State::fill(std::size_t index) {
  const auto& buffer = buffers[index];
  if (!buffer.fill) return;
  std::byte* host = set->host(index);
  const auto& shape = buffer.shape;
  if (buffer.whole) {
    buffer.fill(host, 0, buffer.elements());
  } else if (shape.columns == shape.pitch) {
    memory::parallel_for(buffer.elements(), std::size_t{1} << 16, [&](std::size_t first, std::size_t last) {
      buffer.fill(host + first * buffer.element_bytes, first, last);
    });
  } else {
    const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 16) / shape.pitch);
    const auto padding = (shape.pitch - shape.columns) * buffer.element_bytes;
    memory::parallel_for(shape.rows, grain, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        std::byte* row_begin = host + row * shape.pitch * buffer.element_bytes;
        buffer.fill(row_begin, row * shape.columns, (row + 1) * shape.columns);
        std::memset(row_begin + shape.columns * buffer.element_bytes, 0, padding);
      }
    });
  }
}

}  // namespace isthmus::workload
