#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isthmus::harness {

/// "12.3 ms", "55.4 GB/s", "5.00 M/s", "0.42": three digits, for people, as `isthmus` spells them
/// (tests/quantities.csv).
std::string format_quantity(double value, const std::string& unit);

/// The outcome of a record's case: "pass", "ok", "skipped", "interrupted", "WRONG" or "FAILED".
std::string outcome_of(const nlohmann::json& record);

/// Medians of the records as text of 80 columns; what casts doubt on a figure stands next to it. `by_mode`: modes were
/// asked for, so cases are named by them.
std::string table(const std::vector<nlohmann::json>& records, bool by_mode = false);

/// How many cases have figures in doubt, and why; empty where none has.
std::string doubts_sentence(const std::vector<nlohmann::json>& records);

}  // namespace isthmus::harness
