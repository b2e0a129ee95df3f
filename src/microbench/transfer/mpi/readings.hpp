#pragma once

// What the workloads of several ranks have in common.

#include "workload/team.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::transfer {

/// How often to repeat, on every rank, what takes the slowest of them `seconds`: until leaving the barrier, which ranks
/// do some microseconds apart, is less than a hundredth of a sample. At most `most` times.
int repetitions(workload::Case& c, double seconds, int most);

/// Of a rate between ranks.
inline constexpr const char* kPathUnknown = "what lies between the ranks is not read";

}  // namespace isthmus::microbench::transfer
