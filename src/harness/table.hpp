#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isthmus::harness {

/// "12.3 ms", "55.4 GB/s", "0.42": four significant figures at most, for people.
std::string format_quantity(double value, const std::string& unit);

/// Medians of the records as a table of 80 columns.
std::string table(const std::vector<nlohmann::json>& records);

}  // namespace isthmus::harness
