#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/case_state.hpp"
#include "harness/host_memory.hpp"
#include "harness/interrupt.hpp"
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

void Case::sample(Metric metric, const std::function<double()>& body) {
  const HarnessAtWork at_work(state_);
  if (state_.footprint_only) throw FootprintKnown{};
  Series series;
  series.name = std::move(metric.name);
  series.unit = std::move(metric.unit);
  series.better = metric.better;
  series.timer = std::move(metric.timer);
  series.direction = std::move(metric.direction);
  if (metric.bytes_needed > 0) series.bytes_needed = metric.bytes_needed;
  if (metric.bytes_moved > 0) series.bytes_moved = metric.bytes_moved;
  if (metric.limit) {
    series.limit = Limit{*metric.limit, std::move(metric.limit_source)};
  } else {
    series.limit_reason = "the workload states none";
  }
  series.warmups = state_.warmups();
  {
    const Accounted warming(state_.account.warmups);
    for (int i = 0; i < series.warmups && !interrupted(); ++i) body();
  }
  state_.monitor.begin();
  while (!interrupted()) {
    {
      const Accounted sampling(state_.account.samples);
      const double value = body();
      if (!std::isfinite(value))
        throw std::runtime_error(fmt::format("metric {} came out as {}; its timing is wrong", series.name, value));
      series.samples.push_back(value);
    }
    const auto stop = state_.stop(series.samples.size(), state_.most_samples(), median_is_settled(series.samples));
    for (const auto spoilt : state_.monitor.sample_done(series.samples.size() - 1, stop.has_value()))
      series.invalid.push_back(spoilt);
    if (stop) {
      series.stop = *stop;
      break;
    }
  }
  if (interrupted()) {
    series.stop = Stop::interrupted;
    state_.result.interrupted = true;
  }
  if (!series.invalid.empty())
    state_.result.warn("throttled", "the device slowed itself down while " + series.name + " was sampled",
                       series.invalid);
  if (!series.samples.empty()) state_.result.metrics.push_back(std::move(series));
  state_.sampled = true;
  // Checks may refer to what stands on the workload's stack, so they run while it is there.
  const Accounted verifying(state_.account.verifying);
  state_.verifier.check_own();
}

// --- state -------------------------------------------------------------------------------------------

void Case::State::own_code_begins() {
  own_code_begin_ = now();
  own_code_accounted_ = account.total();
}

void Case::State::own_code_ends() {
  account.inputs += now() - own_code_begin_ - (account.total() - own_code_accounted_);
}

std::optional<Stop> Case::State::stop(std::size_t taken, int most, bool settled, double budget_share) const {
  if (interrupted()) return Stop::interrupted;
  if (emulated && !sampling.samples) return Stop::emulated;
  if (adaptive() && settled) return Stop::interval;
  if (taken >= static_cast<std::size_t>(most)) return Stop::samples;
  if (over_budget(budget_share)) return Stop::budget;
  return std::nullopt;
}

void Case::State::check_footprint(std::size_t host_bytes, std::size_t device_bytes) const {
  const auto host = available_host_memory();
  // A little stays for the program itself; page tables, staging buffers and the like come on top of what is asked for.
  const double usable = 0.95;
  if (host && static_cast<double>(host_bytes) > usable * static_cast<double>(*host))
    throw Skip(fmt::format("needs {} of host memory, {} are available", format_bytes(static_cast<double>(host_bytes)),
                           format_bytes(static_cast<double>(*host))),
               SkipKind::memory);
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
