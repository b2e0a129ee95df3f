#pragma once

#include <string>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::fault {

std::vector<workload::Workload> cpu_workloads(const workload::Machine& machine);
std::vector<workload::Workload> gpu_workloads(const workload::Machine& machine);

/// One thread, half of the machine's `all`, and all of them.
std::vector<workload::AxisValue> default_threads(unsigned all);
/// `threads` of the host, with those values.
workload::Axis threads_axis(const char* help);

/// The 50th, 95th and 99th percentile of a fault by itself, of a touch that faults and of one that finds the page
/// there: the names of the metrics and, in the same order, their seconds.
std::vector<std::string> percentile_names();
std::vector<double> percentiles(std::vector<double> faulting, std::vector<double> present);

/// Of seconds of one fault, and of faults in a second.
inline constexpr const char* kUnbounded = "the cost of a page fault has no known bound";

}  // namespace isthmus::microbench::fault
