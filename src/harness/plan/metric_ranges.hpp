#pragma once

// Ranges that the definitions of metrics allow, as schema/doubts.json lists them.

#include <string_view>

namespace isthmus::harness {

/// Whether a figure is outside what the definition of its metric allows.
bool out_of_range(std::string_view metric, double value);

/// schema/doubts.json as it was when this binary was built.
std::string_view doubt_list() noexcept;

}  // namespace isthmus::harness
