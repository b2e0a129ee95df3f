#pragma once

#include <vector>

#include "harness/workload.hpp"

namespace isthmus::microbench::fault {

std::vector<harness::Workload> cpu_workloads(const harness::Machine& machine);
std::vector<harness::Workload> gpu_workloads(const harness::Machine& machine);

/// One thread, half of the machine's `all`, and all of them.
std::vector<harness::AxisValue> usual_threads(unsigned all);
/// `threads` of the host, with those values.
harness::Axis threads_axis(const char* help);

/// Seconds of one fault, or of one touch, among so many; the 50th, 95th and 99th percentile.
struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0;
};
Percentiles percentiles_of(std::vector<double>& seconds);

/// Metrics of this family: seconds of one fault by the timer given.
harness::Metric cost(std::string name, const char* timer);
/// Faults in a second.
harness::Metric pace(std::string name, const char* timer);

}  // namespace isthmus::microbench::fault
