#pragma once

// Workloads and families of this program; their registrations add them.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "workload/description.hpp"

namespace isthmus::workload {

/// Family and the workloads it has made so far; they are in a map, so that their addresses do not change.
struct RegisteredFamily {
  std::vector<Workload> (*make)(const Machine&) = nullptr;
  std::map<std::string, Workload, std::less<>> made;
};

/// Returns all registered workloads, keyed by name.
std::map<std::string, Workload>& registered_workloads();
/// Returns all registered families, keyed by prefix.
std::map<std::string, RegisteredFamily>& registered_families();

}  // namespace isthmus::workload
