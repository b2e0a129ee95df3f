#include "harness/plan/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

namespace {

// Fixed cost of a case: querying the device's state, creating streams, writing the record. Page-locking took 0.4 s per
// GiB when it was measured; the time in which one thread writes fresh memory replaces it if that is longer.
constexpr double kCaseSeconds = 0.1;
constexpr double kPageLockingSeconds = 0.4 / 0x1p30;
double allocation_seconds(const SamplingOptions& sampling) {
  return std::max(kPageLockingSeconds, 1 / sampling.touch_rate);
}
constexpr double kEmulatedWork = 50e6;  // bytes and operations of kernels per second on an emulated device
constexpr int kUsualSamples = 15;       // the adaptive rule takes 6 to 30

int usual_samples(double seconds, const SamplingOptions& sampling) {
  if (sampling.samples) return *sampling.samples;
  return kUsualSamples * seconds > sampling.long_sampling ? std::min(kUsualSamples, sampling.enough_long)
                                                          : kUsualSamples;
}

/// Returns the sum of all axes in bytes, as a guess at the host memory of a workload whose footprint is unknown.
double bytes_on_axes(const CaseSpec& spec) {
  double bytes = 0;
  for (const auto& axis : spec.workload->description().axes) {
    if (axis.bytes) bytes += static_cast<double>(spec.integer(axis.name));
  }
  return bytes;
}

double own_readings(const CaseSpec& spec, const SamplingOptions& sampling,
                    const std::optional<CaseFootprint>& footprint) {
  const bool emulated = is_emulated(*spec.workload);
  const double once = spec.workload->description().estimate(spec);
  const int operations = (emulated ? sampling.samples.value_or(1) : usual_samples(once, sampling)) +
                         sampling.warmups.value_or(emulated ? 0 : 2);
  const double host = footprint ? static_cast<double>(footprint->host_bytes) : bytes_on_axes(spec);
  // The memory of an emulated device is host memory, which takes time to poison.
  const double device = emulated && footprint ? static_cast<double>(footprint->device_bytes) : 0;
  return kCaseSeconds + (host + device) * allocation_seconds(sampling) + operations * once;
}

double phases(const CaseSpec& spec, const SamplingOptions& sampling, const CaseFootprint& footprint) {
  const double bytes = static_cast<double>(std::max(footprint.host_bytes, footprint.device_bytes));
  if (is_emulated(*spec.workload)) {
    const double work = footprint.traffic.bytes_read + footprint.traffic.bytes_written + footprint.traffic.flops;
    return kCaseSeconds + bytes * allocation_seconds(sampling) + 2 * work / kEmulatedWork;
  }
  const bool pageable = spec.placement && (*spec.placement)->in == memory::Travel::blocking;
  const double pass = bytes / 10e9 + bytes / (pageable ? 8e9 : 50e9) + footprint.traffic.flops / 5e12;
  const int samples = usual_samples(pass, sampling);
  const int cycles = std::min(samples, sampling.allocation_cycles);
  const int passes = 2 * cycles + samples + std::min(samples, sampling.most_overlapped) + 3;
  const double allocation = bytes * (kPageLockingSeconds + 1 / sampling.touch_rate);
  return kCaseSeconds + passes * pass + cycles * allocation;
}

}  // namespace

std::optional<double> estimate_seconds(const CaseSpec& spec, const SamplingOptions& asked,
                                       const std::optional<CaseFootprint>& footprint) {
  if (spec.not_applicable) return 0;
  const auto sampling = sampling_of(spec, asked);
  std::optional<double> seconds;
  if (spec.workload->description().estimate) {
    seconds = own_readings(spec, sampling, footprint);
  } else if (spec.placement && footprint) {
    seconds = phases(spec, sampling, *footprint);
  }
  if (seconds && !sampling.samples && !is_emulated(*spec.workload)) *seconds += sampling.least_time.value_or(0);
  const auto budget = sampling.budget || sampling.samples ? sampling.budget : SamplingOptions::kDefaultBudget;
  return seconds && budget ? std::min(*seconds, *budget) : seconds;
}

void Estimate::add(std::optional<double> case_seconds, int times) {
  cases += static_cast<std::size_t>(times);
  seconds += case_seconds.value_or(0) * times;
  unknown += case_seconds ? 0 : static_cast<std::size_t>(times);
}

std::string Estimate::sentence() const {
  const auto counted = [](std::size_t count) { return fmt::format("{} case{}", count, count == 1 ? "" : "s"); };
  if (unknown == cases) return counted(cases);
  auto text = fmt::format("{}, {}", counted(cases), about(seconds));
  if (unknown > 0) text += fmt::format(" without {} of unknown length", counted(unknown));
  return text;
}

std::string about(double seconds) {
  const auto rounded = [](double value) { return value < 9.5 ? std::round(value) : 5 * std::round(value / 5); };
  if (seconds < 1) return "less than 1 s";
  if (seconds < 87.5) return fmt::format("about {:.0f} s", rounded(seconds));
  const double minutes = seconds / 60;
  if (minutes < 87.5) return fmt::format("about {:.0f} min", rounded(minutes));
  return fmt::format("about {:g} h", std::round(seconds / 1800) / 2);
}

}  // namespace isthmus::harness
