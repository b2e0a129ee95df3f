#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isthmus::harness {

/// One kind of cache of the host's processors.
struct CacheFacts {
  int level = 1;
  bool instructions = false;  ///< contains instructions only
  std::size_t bytes = 0, line_bytes = 0;
  int processors = 1;  ///< logical processors that share one cache
  int count = 1;       ///< number of such caches
  bool operator==(const CacheFacts&) const = default;
};

/// Host part of a record's fingerprint. Unknown facts are nullopt.
struct HostFacts {
  std::string cpu, kernel;
  std::optional<int> numa_nodes, cores;
  std::optional<std::string> thp, governor, iommu, os;
  std::optional<std::string> boot_id;  ///< changes with each start of the machine
  std::optional<std::size_t> memory_bytes;
  std::optional<std::map<std::string, std::string>> uvm_parameters;
  std::optional<bool> numa_balancing;
  std::optional<int> processors_allowed;  ///< processors that this process may use (cgroups, affinity)
  std::vector<CacheFacts> caches;         ///< sorted by level; empty if unknown
};

/// Returns the parameters of a kernel module, keyed by name; nullopt if the list cannot be read completely.
std::optional<std::map<std::string, std::string>> module_parameters(const std::filesystem::path& folder);
/// Returns the CPU frequency governor, such as "performance", or "performance,powersave" if processors differ; nullopt
/// if one cannot be read. `folder`: such as /sys/devices/system/cpu.
std::optional<std::string> governor_of(const std::filesystem::path& folder);

/// Returns the facts of this host. They are read once; later calls return the same.
const HostFacts& host_facts();

/// Returns SLURMD_NODENAME if set, else the host's name.
std::string node_name();

}  // namespace isthmus::harness
