#pragma once

#include <vector>

#include "harness/plan/request.hpp"

namespace isthmus::harness {

/// The cases that a request asks for, in the order in which they run.
std::vector<CaseSpec> plan(const Request& request);

}  // namespace isthmus::harness
