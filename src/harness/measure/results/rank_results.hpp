#pragma once

// What several ranks say of the case that they ran together.

#include "harness/measure/results/result.hpp"
#include "harness/ranks/ranks.hpp"

namespace isthmus::harness {

/// Tells the other ranks what happened on this one and hears the same of them. Afterwards an error, a skip, a wrong
/// result, a warning or an interrupt of any rank is in the result of every one, with that rank's number. Collective.
void share_outcome(CaseResult& result, Ranks& ranks);

}  // namespace isthmus::harness
