#pragma once

// What casts doubt on a figure of a record, in the few words that stand next to it on a screen, and whether it is low.
// schema/doubts.json and schema/usual_shares.json say which; `isthmus` reads the same files (tests/doubts.jsonl).

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::harness {

/// What stands next to a figure: "low, 53% of the usual 87% of PCIe: others on the GPU"; empty where nothing does.
std::string doubts_text(const nlohmann::json& record, const nlohmann::json& metric);

/// Words of what casts doubt on any figure of these records, with the number of cases; "low" for low figures.
std::map<std::string, int> doubts_by_case(const std::vector<nlohmann::json>& records);

/// schema/usual_shares.json as it was when this binary was built.
std::string_view usual_share_list() noexcept;

}  // namespace isthmus::harness
