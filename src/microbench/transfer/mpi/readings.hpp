#pragma once

// What the workloads of several ranks have in common.

#include <string>

#include "workload/team.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::transfer {

/// How often to repeat, on every rank, what takes the slowest of them `seconds`: until leaving the barrier, which ranks
/// do some microseconds apart, is less than a hundredth of a sample. At most `most` times.
int repetitions(workload::Case& c, double seconds, int most);

workload::Metric rate_metric(std::string name, double bytes, std::string direction);

}  // namespace isthmus::microbench::transfer
