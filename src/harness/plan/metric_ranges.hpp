#pragma once

// Ranges that the definitions of metrics allow, as listed in schema/doubts.json.

#include <string_view>

namespace isthmus::harness {

/// Returns whether a figure is outside the range that the definition of its metric allows.
bool out_of_range(std::string_view metric, double value);

/// Returns schema/doubts.json as it was when this binary was built.
std::string_view doubt_list() noexcept;

}  // namespace isthmus::harness
