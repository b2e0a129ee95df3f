#include "harness/plan/metric_ranges.hpp"

#include <nlohmann/json.hpp>

namespace isthmus::harness {

bool out_of_range(std::string_view metric, double value) {
  static const auto ranges = nlohmann::json::parse(doubt_list()).at("ranges");
  const auto range = ranges.find(metric);
  if (range == ranges.end() || !range->is_array()) return false;
  const double slack = ranges.at("slack");
  return value < range->at(0).get<double>() - slack || value > range->at(1).get<double>() + slack;
}

}  // namespace isthmus::harness
