#pragma once

// Tables of workloads that are named by where they move data.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::harness {

/// What a name <family>/<from>-<to>/<initiator>[-duplex] says.
struct Route {
  std::string family, from, to, initiator;
  bool duplex = false;  ///< both directions at once; metric `rate` is their sum
};
std::optional<Route> route_of(std::string_view workload);

/// A matrix from × to for each initiator, with the median of `rate` (else of `latency`) at the largest size that ran
/// and its share of the limit; then, where several sizes ran, each route by size; then what was skipped and why. All
/// records have routes; no line is longer than 80 columns.
std::string matrices(const std::vector<const nlohmann::json*>& records);

}  // namespace isthmus::harness
