#pragma once

// Doubts on a record's figure, in the few words that are shown next to it, and whether the figure is low. The rules are
// in schema/doubts.json and schema/usual_shares.json, which `isthmus` reads as well (tests/doubts.jsonl).

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::harness {

/// Returns the text next to a figure, such as "low, 53% of the usual 87% of PCIe: others on the GPU"; empty if there
/// are no doubts.
std::string doubts_text(const nlohmann::json& record, const nlohmann::json& metric);

/// Returns the number of cases with each doubt on any of their figures, keyed by the doubt's words, or by "low" for low
/// figures.
std::map<std::string, int> doubts_by_case(const std::vector<nlohmann::json>& records);

/// Returns schema/usual_shares.json as it was when this binary was built.
std::string_view usual_share_list() noexcept;

}  // namespace isthmus::harness
