#pragma once

#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::fault {

std::vector<workload::Workload> cpu_workloads(const workload::Machine& machine);
std::vector<workload::Workload> gpu_workloads(const workload::Machine& machine);

/// One thread, half of the machine's `all`, and all of them.
std::vector<workload::AxisValue> usual_threads(unsigned all);
/// `threads` of the host, with those values.
workload::Axis threads_axis(const char* help);

/// Seconds of one fault, or of one touch, among so many; the 50th, 95th and 99th percentile.
struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0;
};
Percentiles percentiles_of(std::vector<double>& seconds);

/// Metrics of this family: seconds of one fault by the timer given.
workload::Metric cost(std::string name, const char* timer);
/// Faults in a second.
workload::Metric pace(std::string name, const char* timer);

}  // namespace isthmus::microbench::fault
