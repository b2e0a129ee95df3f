#pragma once

// The parts of a record that `info` shows too.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::harness {

nlohmann::json device_json(const device::DeviceInfo& info, const std::optional<device::Telemetry>& before,
                           const std::optional<device::Telemetry>& after);
/// `numa_node`: where host memory is put; -1 leaves it out.
nlohmann::json host_json(int numa_node = -1);
nlohmann::json build_json();
/// "0.1.0, commit …, changed", as far as it is known.
std::string version_text();

}  // namespace isthmus::harness
