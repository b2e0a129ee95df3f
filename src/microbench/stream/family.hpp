#pragma once

#include <string>
#include <vector>

#include "memory/pages.hpp"
#include "microbench/cpu_threads.hpp"
#include "microbench/stream/host_team.hpp"

namespace isthmus::microbench::stream {

/// Returns the workloads stream/cpu/<operation>.
std::vector<workload::Workload> cpu_workloads(const workload::Machine& machine);
/// Returns the workloads stream/gpu<N>/<operation> and stream/gpu<N>/cpu-<operation>.
std::vector<workload::Workload> gpu_workloads(const workload::Machine& machine);

// Functions that both kinds of workloads share.

/// Adds the axes of CPU threads and of the arrays' layout. `several`: by default, a run uses several numbers of threads
/// and both kinds of stores.
void add_cpu_axes(workload::Workload& workload, Operation operation, const workload::Machine& machine, bool several);
/// Adds the axis of an array's bytes.
void add_bytes_axis(workload::Workload& workload, std::int64_t default_bytes);
void add_sizes(workload::Workload& workload);

/// Returns the stores that the case requests. Throws workload::Skip if this build does not have them.
Stores stores_of(const workload::Case& c, Operation operation);
/// Returns the layout from the axes `bytes` and, for the CPU, `offset`. Throws workload::Skip if they are not multiples
/// of a piece.
Layout layout_of(const workload::Case& c, Operation operation, bool by_cpu);

/// Returns the metrics time and rate. Bytes needed are counted as in STREAM; `moved`: bytes that the memory transfers.
std::vector<workload::Metric> metrics(Operation operation, std::size_t count, const std::string& timer, double moved);

/// Returns the names of the metrics that measure_on_cpu() and observe_init() report.
std::vector<std::string> metrics_on_cpu();
/// Observes the CPU's page faults since `before`, while the arrays were allocated and their inputs written.
void observe_init(workload::Case& c, const memory::PageFaults& before);
/// Samples the operation and its page faults on the CPU, and verifies the results.
void measure_on_cpu(workload::Case& c, Operation operation, HostTeam& team, Stores stores, const Arrays& arrays);

}  // namespace isthmus::microbench::stream
