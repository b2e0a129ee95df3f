#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isthmus::harness {

/// "12.3 ms", "55.4 GB/s", "5.00 M/s", "0.42": three digits, for people, as `isthmus` spells them
/// (tests/quantities.csv).
std::string format_quantity(double value, const std::string& unit);

/// In which multiple of its unit a value is shown: G of B/s for 55.4e9. Seconds have no large multiples.
struct UnitPrefix {
  double factor = 1;
  const char* name = "";
};
UnitPrefix prefix_for(double value, const std::string& unit);

/// "ok", "skipped", "failed" or "wrong"; why a case has no figures, or null; and how a table of text says it.
std::string status_of(const nlohmann::json& record);
nlohmann::json reason_of(const nlohmann::json& record);
std::string outcome_of(const nlohmann::json& record);

enum class TableFormat { text, json, csv };

/// Medians of the records: as text of 80 columns; or one row per metric as JSON or CSV, whatever the workloads are.
std::string table(const std::vector<nlohmann::json>& records, TableFormat format = TableFormat::text);

}  // namespace isthmus::harness
