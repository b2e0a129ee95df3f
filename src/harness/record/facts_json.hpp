#pragma once

// Parts of a record that `info` shows as well.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::harness {

nlohmann::json device_json(const device::DeviceInfo& info, const std::optional<device::Telemetry>& before,
                           const std::optional<device::Telemetry>& after);
/// Returns the host part. `numa_node`: node of host memory; omitted if -1.
nlohmann::json host_json(int numa_node = -1);
nlohmann::json build_json();
/// Returns "0.1.0, commit …, changed", as far as known.
std::string version_text();

}  // namespace isthmus::harness
