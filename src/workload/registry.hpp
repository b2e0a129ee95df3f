#pragma once

// The workloads and families of this program, as their registrations left them.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "workload/description.hpp"

namespace isthmus::workload {

/// A family and what it has made so far; a map keeps its entries where they are.
struct RegisteredFamily {
  std::vector<Workload> (*make)(const Machine&) = nullptr;
  std::map<std::string, Workload, std::less<>> made;
};

/// By name.
std::map<std::string, Workload>& registered_workloads();
/// By prefix.
std::map<std::string, RegisteredFamily>& registered_families();

}  // namespace isthmus::workload
