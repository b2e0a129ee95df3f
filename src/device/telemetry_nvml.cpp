#include "device/telemetry.hpp"
namespace isthmus::device { Telemetry telemetry_nvml(const std::string&, const std::string&, const std::string&) noexcept {return {};}
std::optional<std::string> nvml_driver_version(const std::string&) noexcept {return {};}
bool nvml_is_mig(const std::string&, const std::string&) noexcept {return false;}}
