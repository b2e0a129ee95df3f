#pragma once

// Results of several ranks that ran a case together.

#include "harness/measure/results/result.hpp"
#include "harness/ranks/ranks.hpp"

namespace isthmus::harness {

/// Exchanges outcomes with the other ranks. Afterwards an error, a skip, a wrong result, a warning or an interrupt of
/// any rank is in the result of every rank, with that rank's number. Collective: every rank must call it.
void share_outcome(CaseResult& result, Ranks& ranks);

}  // namespace isthmus::harness
