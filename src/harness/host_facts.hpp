#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace isthmus::harness {

/// The host side of the fingerprint. Null: nobody could tell.
struct HostFacts {
  std::string cpu, kernel;
  int numa_nodes = 1;
  int cores = 1;
  std::optional<std::string> thp, governor, iommu, os;
  std::optional<std::size_t> memory_bytes;
  std::optional<std::map<std::string, std::string>> uvm_parameters;
  std::optional<bool> numa_balancing;
  std::optional<int> processors_allowed;  ///< of this process (cgroups, affinity)
};

/// Asked once; later calls return the same.
const HostFacts& host_facts();

/// SLURMD_NODENAME where set, else the host's name.
std::string node_name();

}  // namespace isthmus::harness
