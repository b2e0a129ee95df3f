#pragma once

#include <string>
#include <vector>

#include "memory/pages.hpp"
#include "microbench/cpu_threads.hpp"
#include "microbench/stream/host_team.hpp"

namespace isthmus::microbench::stream {

/// stream/cpu/<operation>.
std::vector<workload::Workload> cpu_workloads(const workload::Machine& machine);
/// stream/gpu<N>/<operation> and stream/gpu<N>/cpu-<operation>.
std::vector<workload::Workload> gpu_workloads(const workload::Machine& machine);

// What the two have in common.

/// Axes of the threads of the CPU, and how the arrays lie for them; `several`: a run takes several numbers of threads,
/// and both kinds of stores.
void add_cpu_axes(workload::Workload& workload, Operation operation, const workload::Machine& machine, bool several);
/// Bytes of one array.
void add_bytes_axis(workload::Workload& workload, std::int64_t default_bytes);
void add_sizes(workload::Workload& workload);

/// As the axis of a case says. Throws workload::Skip where this build has none.
Stores stores_of(const workload::Case& c, Operation operation);
/// As the axes `bytes` and, for the CPU, `offset` say. Throws workload::Skip where they are no whole pieces.
Layout layout_of(const workload::Case& c, Operation operation, bool by_cpu);

/// time and rate: STREAM's bytes are needed; `moved` are those that pass the memory.
std::vector<workload::Metric> metrics(Operation operation, std::size_t count, const std::string& timer, double moved);

/// What measure_on_cpu() and observe_init() report.
std::vector<std::string> metrics_on_cpu();
/// Observes the page faults of the CPU since `before`: the arrays were allocated meanwhile, and their inputs written.
void observe_init(workload::Case& c, const memory::PageFaults& before);
/// Samples the operation on the CPU, with its page faults, and verifies what it leaves.
void measure_on_cpu(workload::Case& c, Operation operation, HostTeam& team, Stores stores, const Arrays& arrays);

}  // namespace isthmus::microbench::stream
