#include "device/telemetry.hpp"
namespace isthmus::device { int numa_node_sysfs(const std::string&, const std::filesystem::path&) noexcept {return -1;} 
Telemetry telemetry_sysfs(const std::string&, const std::filesystem::path&) noexcept {return {};}}
