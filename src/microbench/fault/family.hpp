#pragma once

#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::fault {

std::vector<workload::Workload> cpu_workloads(const workload::Machine& machine);
std::vector<workload::Workload> gpu_workloads(const workload::Machine& machine);

/// One thread, half of the machine's `all`, and all of them.
std::vector<workload::AxisValue> default_threads(unsigned all);
/// `threads` of the host, with those values.
workload::Axis threads_axis(const char* help);

/// Seconds of one fault, or of one touch, among so many; the 50th, 95th and 99th percentile.
struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0;
};
Percentiles percentiles_of(std::vector<double>& seconds);

/// Of seconds of one fault, and of faults in a second.
inline constexpr const char* kUnbounded = "the cost of a page fault has no known bound";

}  // namespace isthmus::microbench::fault
