#pragma once

// Monitor of the device's state while samples are taken. It reports which samples are invalid.

#include <optional>
#include <string>
#include <vector>

#include "device/api/device.hpp"
#include "harness/measure/results/result.hpp"
#include "harness/measure/watch/observer.hpp"

namespace isthmus::harness {

/// Returns whether this throttle reason invalidates samples, because the chip slows down to protect itself. A software
/// power cap causes only a warning, because a chip at its rated power runs that way.
bool invalidates_samples(std::string_view throttle_reason) noexcept;

/// Adds the warnings that follow from the device's state before and after a case.
void warn_about_state(CaseResult& result, const device::Telemetry& before, const device::Telemetry& after);
void warn_about_host(CaseResult& result, const std::optional<std::string>& governor);

/// Observer of the device's state. It queries the device at most twice a second.
class Monitor final : public Observer {
 public:
  /// Observes nothing if `device` is nullopt.
  explicit Monitor(std::optional<int> device) : device_(device) {}

  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override {}
  std::vector<Warning> invalid(std::size_t sample, bool last) override;

  /// Highest link generation and width seen so far: an idle link sleeps at a low generation.
  std::optional<int> pcie_generation, pcie_width;
  std::vector<std::string> throttle_reasons;  ///< all reasons seen while sampling
  void see(const device::Telemetry& telemetry);

 private:
  std::optional<int> device_;
  device::Telemetry latest_;
  std::size_t next_unasked_ = 0;
  double last_asked_ = 0;
};

}  // namespace isthmus::harness
