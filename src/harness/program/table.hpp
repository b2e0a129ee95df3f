#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isthmus::harness {

/// Formats a value with three digits, as `isthmus` does (tests/quantities.csv): "12.3 ms", "55.4 GB/s", "5.00 M/s",
/// "0.42".
std::string format_quantity(double value, const std::string& unit);

/// Returns the outcome of a record's case: "pass", "ok", "skipped", "interrupted", "WRONG" or "FAILED".
std::string outcome_of(const nlohmann::json& record);

/// Returns the medians of the records as text of 80 columns, each figure with its doubts next to it. `by_mode`: cases
/// are named by their modes, because the user requested modes.
std::string table(const std::vector<nlohmann::json>& records, bool by_mode = false);

/// Returns a sentence on how many cases have figures in doubt, and why; empty if there are none.
std::string doubts_sentence(const std::vector<nlohmann::json>& records);

}  // namespace isthmus::harness
