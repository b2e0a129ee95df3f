#pragma once

#include <string>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::fault_cost {

std::vector<workload::Workload> cpu_workloads(const workload::Machine& machine);
std::vector<workload::Workload> gpu_workloads(const workload::Machine& machine);

/// Returns the values of an axis of threads: one, half of `all`, and `all`, which is the machine's number of threads.
std::vector<workload::AxisValue> default_threads(unsigned all);
/// Returns the axis `threads`, for host threads, with the values of default_threads().
workload::Axis threads_axis(const char* help);

/// Returns the names of the metrics for percentiles: the 50th, 95th and 99th of a fault alone, of a touch that faults,
/// and of a touch that finds the page present. percentiles() returns their seconds in the same order.
std::vector<std::string> percentile_names();
std::vector<double> percentiles(std::vector<double> faulting, std::vector<double> present);

/// Reason why seconds per fault and faults per second have no limit.
inline constexpr const char* kUnbounded = "the cost of a page fault has no known bound";

}  // namespace isthmus::microbench::fault_cost
