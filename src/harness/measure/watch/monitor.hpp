#pragma once

// Watches the device's state while samples are taken and says which of them it spoils.

#include <optional>
#include <string>
#include <vector>

#include "device/api/device.hpp"
#include "harness/measure/results/result.hpp"
#include "harness/measure/watch/observer.hpp"

namespace isthmus::harness {

/// Throttle reasons during which a sample is worth nothing: the chip slows down to save itself. A software power cap is
/// how a chip runs at its rated power, so it warns and spoils nothing.
bool spoils_samples(std::string_view throttle_reason) noexcept;

/// Warnings that follow from the state before and after a case.
void warn_about_state(CaseResult& result, const device::Telemetry& before, const device::Telemetry& after);
void warn_about_host(CaseResult& result, const std::optional<std::string>& governor);

/// The device's own state. Asks at most twice a second.
class Monitor final : public Observer {
 public:
  /// Watches nothing without a device.
  explicit Monitor(std::optional<int> device) : device_(device) {}

  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override {}
  std::vector<Warning> spoilt(std::size_t sample, bool last) override;

  /// Link generation and width at their best so far: an idle link sleeps at a low generation.
  std::optional<int> pcie_generation, pcie_width;
  std::vector<std::string> throttle_reasons;  ///< all that were seen while sampling
  void see(const device::Telemetry& telemetry);

 private:
  std::optional<int> device_;
  device::Telemetry latest_;
  std::size_t next_unasked_ = 0;
  double last_asked_ = 0;
};

}  // namespace isthmus::harness
