#include "harness/measure/watch/monitor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "workload/clock.hpp"

namespace isthmus::harness {

namespace {

constexpr double kSecondsBetweenQuestions = 0.5;

bool contains_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Returns whether the throttle reason is harmless: the chip is idle, or someone set its clocks on purpose.
bool harmless(std::string_view reason) noexcept {
  return contains_text(reason, "idle") || contains_text(reason, "applications_clocks") ||
         contains_text(reason, "display");
}

}  // namespace

bool invalidates_samples(std::string_view reason) noexcept {
  return !harmless(reason) && !contains_text(reason, "sw_power_cap") &&
         (contains_text(reason, "thermal") || contains_text(reason, "hw_") || contains_text(reason, "brake"));
}

void Monitor::begin(const char* /*reading*/, Part part, std::size_t sample) {
  if (part != Part::samples || sample != 0) return;
  next_unasked_ = 0;
  last_asked_ = now();
}

void Monitor::see(const device::Telemetry& telemetry) {
  const auto raise = [](std::optional<int>& best, const std::optional<int>& seen) {
    if (seen && (!best || *best < *seen)) best = seen;
  };
  raise(pcie_generation, telemetry.pcie_generation);
  raise(pcie_width, telemetry.pcie_width);
  latest_ = telemetry;
}

std::vector<Warning> Monitor::invalid(std::size_t sample, bool last) {
  if (!device_ || (!last && now() - last_asked_ < kSecondsBetweenQuestions)) return {};
  auto telemetry = std::move(latest_);
  device::refresh(telemetry, *device_);
  see(telemetry);
  last_asked_ = now();
  bool slowed = false;
  for (const auto& reason : telemetry.throttle.value_or(std::vector<std::string>{})) {
    if (harmless(reason)) continue;
    slowed |= invalidates_samples(reason);
    if (std::find(throttle_reasons.begin(), throttle_reasons.end(), reason) == throttle_reasons.end())
      throttle_reasons.push_back(reason);
  }
  const auto first = std::exchange(next_unasked_, sample + 1);
  if (!slowed) return {};
  Warning warning{"throttled", "the device throttled while samples were taken", {}};
  for (auto i = first; i <= sample; ++i) warning.samples.push_back(i);
  return {std::move(warning)};
}

void warn_about_state(CaseResult& result, const device::Telemetry& before, const device::Telemetry& after) {
  if (after.pcie_width && after.pcie_width_max && *after.pcie_width < *after.pcie_width_max)
    result.warn("pcie_downtrained", fmt::format("the PCIe link uses {} of {} lanes; reseat the card or check its slot",
                                                *after.pcie_width, *after.pcie_width_max));
  // The generation falls when the link idles, so the higher of the two values counts as the case's.
  const auto generation = std::max(before.pcie_generation, after.pcie_generation);
  if (generation && after.pcie_generation_max && *generation < *after.pcie_generation_max)
    result.warn("pcie_downtrained",
                fmt::format("the PCIe link runs at generation {} of {}", *generation, *after.pcie_generation_max));
  if (after.ecc_uncorrected && before.ecc_uncorrected && *after.ecc_uncorrected > *before.ecc_uncorrected) {
    result.warn("ecc_errors", fmt::format("{} uncorrected memory errors occurred during the case",
                                          *after.ecc_uncorrected - *before.ecc_uncorrected));
  } else if (after.ecc_uncorrected && *after.ecc_uncorrected > 0) {
    result.warn("ecc_errors", fmt::format("the device reports {} uncorrected memory errors", *after.ecc_uncorrected));
  }
  if (after.xids && before.xids && after.xids->size() > before.xids->size())
    result.warn("xid_errors",
                fmt::format("the driver reported Xid {} on this device during the case; see the kernel's log",
                            fmt::join(std::span(*after.xids).subspan(before.xids->size()), ", ")));
  if (!after.source.empty() && (!after.foreign_processes || !after.throttle))
    result.notes["device_state"] =
        fmt::format("the driver does not report {}", !after.foreign_processes && !after.throttle
                                                         ? "whether others used the device, or whether it throttled"
                                                     : after.throttle ? "whether others used the device"
                                                                      : "whether the device throttled");
  std::vector<unsigned> foreign;
  for (const auto* each : {&before, &after}) {
    if (each->foreign_processes)
      foreign.insert(foreign.end(), each->foreign_processes->begin(), each->foreign_processes->end());
  }
  std::sort(foreign.begin(), foreign.end());
  foreign.erase(std::unique(foreign.begin(), foreign.end()), foreign.end());
  if (!foreign.empty())
    result.warn("foreign_processes",
                fmt::format("other processes use memory on the device (pid {})", fmt::join(foreign, ", ")));
  if (after.power_limit_w && after.power_limit_default_w && *after.power_limit_w < 0.99 * *after.power_limit_default_w)
    result.warn("power_limited", fmt::format("the power limit is {:.0f} W; the default is {:.0f} W",
                                             *after.power_limit_w, *after.power_limit_default_w));
}

void warn_about_host(CaseResult& result, const std::optional<std::string>& governor) {
  if (!governor || !contains_text(*governor, "powersave")) return;
  result.warn("governor_powersave",
              fmt::format("the CPU frequency governor {} powersave; host-side times may be longer",
                          *governor == "powersave" ? "is" : "of some processors is"));
}

}  // namespace isthmus::harness
