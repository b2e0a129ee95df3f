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
  bool instructions = false;  ///< holds instructions only
  std::size_t bytes = 0, line_bytes = 0;
  int processors = 1;  ///< logical ones that share each
  int count = 1;       ///< how many there are
  bool operator==(const CacheFacts&) const = default;
};

/// The host side of the fingerprint. Null: unknown.
struct HostFacts {
  std::string cpu, kernel;
  std::optional<int> numa_nodes, cores;
  std::optional<std::string> thp, governor, iommu, os;
  std::optional<std::string> boot_id;  ///< another one after each start of the machine
  std::optional<std::size_t> memory_bytes;
  std::optional<std::map<std::string, std::string>> uvm_parameters;
  std::optional<bool> numa_balancing;
  std::optional<int> processors_allowed;  ///< of this process (cgroups, affinity)
  std::vector<CacheFacts> caches;         ///< by level; empty where unknown
};

/// Parameters of a module of the kernel, by name; nullopt where the list cannot be read to its end.
std::optional<std::map<std::string, std::string>> module_parameters(const std::filesystem::path& folder);
/// "performance", or "performance,powersave" where processors differ; nullopt where one's cannot be read. `folder`: as
/// /sys/devices/system/cpu.
std::optional<std::string> governor_of(const std::filesystem::path& folder);

/// Asked once; later calls return the same.
const HostFacts& host_facts();

/// SLURMD_NODENAME where set, else the host's name.
std::string node_name();

}  // namespace isthmus::harness
