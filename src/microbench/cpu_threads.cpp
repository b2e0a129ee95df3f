#include "microbench/cpu_threads.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "memory/processors.hpp"
#include "microbench/axes.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench {

using namespace workload;

void add_thread_axes(Workload& workload, const Machine& machine, bool several) {
  const auto count = static_cast<std::int64_t>(memory::processors().cores.size());
  Axis threads = number_axis("threads", "threads, one per core; 0: as many as there are cores", 0, 0);
  if (several && count > 1) threads.default_sweep.emplace_back(1);
  if (several && count > 3) threads.default_sweep.emplace_back(count / 2);
  if (several) threads.default_sweep.emplace_back(0);
  for (std::int64_t each = 1; each <= count; ++each) threads.all_values.emplace_back(each);
  Axis cores = number_axis("cores", "NUMA node whose cores run the threads; -1: that of the memory", -1, -1);
  Axis node = number_axis("node", "NUMA node of the memory; -1: that of each thread", -1, -1);
  for (const int each : machine.memory_nodes) {
    cores.all_values.emplace_back(each);
    node.all_values.emplace_back(each);
  }
  workload.axis(std::move(threads))
      .axis(std::move(node))
      .axis(std::move(cores))
      .axis(choice_axis("bind", "cores used by fewer threads than cores: far apart or adjacent", {"spread", "close"}));
}

std::size_t threads_asked_for(const CaseSpec& spec) {
  const auto cores = std::max(std::size_t{1}, memory::processors().cores.size());
  const auto threads = static_cast<std::size_t>(spec.integer("threads"));
  return threads == 0 ? cores : std::min(threads, cores);
}

ThreadPlaces thread_places(const Case& c) {
  ThreadPlaces places;
  const auto node = static_cast<int>(c.integer("node")), cores_of = static_cast<int>(c.integer("cores"));
  require_node(node);
  require_node(cores_of);
  places.memory_node = node >= 0 ? node : c.numa_node();
  const auto cores = memory::processors().on_node(cores_of >= 0 ? cores_of : places.memory_node);
  const auto threads = static_cast<unsigned>(c.integer("threads"));
  places.processors =
      memory::places(cores, threads, c.choice("bind") == "close" ? memory::Binding::close : memory::Binding::spread);
  if (places.processors.empty())
    throw Skip(std::to_string(threads) + " threads need as many processors, but this process may use " +
               std::to_string(cores.size()) + " cores there");
  return places;
}

}  // namespace isthmus::microbench
