#pragma once

#include <vector>

#include "harness/plan/request.hpp"

namespace isthmus::harness {

/// Returns the cases that a request selects, in the order in which they run.
std::vector<CaseSpec> plan(const Request& request);

}  // namespace isthmus::harness
