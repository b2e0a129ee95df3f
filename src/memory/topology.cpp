#include "memory/topology.hpp"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace isthmus::memory {

namespace {

/// Scope in which hwloc's environment variables are unset.
class WithoutHwlocVariables {
 public:
  WithoutHwlocVariables() {
    for (const char* name : {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_COMPONENTS"}) {
      if (const char* value = std::getenv(name)) before_.emplace_back(name, value);
      unsetenv(name);
    }
  }
  ~WithoutHwlocVariables() {
    for (const auto& [name, value] : before_) setenv(name, value.c_str(), 1);
  }
  WithoutHwlocVariables(const WithoutHwlocVariables&) = delete;
  WithoutHwlocVariables& operator=(const WithoutHwlocVariables&) = delete;

 private:
  std::vector<std::pair<const char*, std::string>> before_;
};

Topology load(const std::string& synthetic) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return {nullptr, &hwloc_topology_destroy};
  Topology owner(topology, &hwloc_topology_destroy);
  // Only processors and memory: device discovery may start a GPU context.
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(topology, synthetic.c_str()) != 0) owner.reset();
  if (owner != nullptr && hwloc_topology_load(topology) != 0) owner.reset();
  return owner;
}

}  // namespace

Topology load_topology(const std::string& synthetic) {
  static std::mutex one_at_a_time;  // environment variables are shared by the whole process
  const std::scoped_lock hold(one_at_a_time);
  // If these files are missing, hwloc invents one node and its cores.
  if (synthetic.empty() && access("/sys/devices/system/cpu", R_OK | X_OK) != 0)
    return {nullptr, &hwloc_topology_destroy};
  auto topology = load(synthetic);
  if (!synthetic.empty() || (topology && hwloc_topology_is_thissystem(topology.get()) != 0)) return topology;
  const WithoutHwlocVariables plain;
  return load({});
}

}  // namespace isthmus::memory
