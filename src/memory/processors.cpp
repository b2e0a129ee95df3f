#include "memory/processors.hpp"

#include <numa.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "memory/numa_nodes.hpp"
#include "memory/topology.hpp"

namespace isthmus::memory {

namespace {

/// Returns whether the calling thread may use the processor; true if the kernel does not report it.
bool allowed(unsigned processor, bool this_machine) {
  if (!this_machine) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) != 0 || CPU_ISSET(processor, &set);
}

void read_cores(hwloc_topology_t topology, bool this_machine, Processors& found) {
  const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  const bool has_cores = count > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, type); ++i) {
    const hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, static_cast<unsigned>(i));
    Core core;
    unsigned processor = 0;
    hwloc_bitmap_foreach_begin(processor, object->cpuset) {
      if (allowed(processor, this_machine)) core.processors.push_back(static_cast<int>(processor));
    }
    hwloc_bitmap_foreach_end();
    if (core.processors.empty()) continue;
    for (hwloc_obj_t node = nullptr;
         (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
      if (hwloc_bitmap_isincluded(object->cpuset, node->cpuset) != 0)
        core.nodes.push_back(static_cast<int>(node->os_index));
    }
    if (const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object))
      core.package = static_cast<int>(package->logical_index);
    found.cores.push_back(std::move(core));
  }
}

void read_caches(hwloc_topology_t topology, Processors& found) {
  for (const auto type :
       {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE}) {
    for (hwloc_obj_t cache = nullptr; (cache = hwloc_get_next_obj_by_type(topology, type, cache)) != nullptr;) {
      const bool used = std::any_of(found.cores.begin(), found.cores.end(), [&](const Core& core) {
        return hwloc_bitmap_isset(cache->cpuset, static_cast<unsigned>(core.processors.front())) != 0;
      });
      if (used) found.last_level_cache_bytes += cache->attr->cache.size;
      if (used && cache->attr->cache.linesize > 0) found.cache_line_bytes = cache->attr->cache.linesize;
    }
    if (found.last_level_cache_bytes > 0) return;
  }
}

}  // namespace

std::vector<int> usable_processors(int node) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  // If the kernel does not support nodes, all processors count as on node 0.
  const bool known = numa_available() >= 0;
  if (!known && node > 0) return {};
  std::vector<int> list;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    if (node < 0 || !known || numa_node_of_cpu(processor) == node) list.push_back(processor);
  }
  return list;
}

int memory_node_of_processor(int processor) {
  if (processor < 0 || numa_available() < 0) return -1;
  const int node = numa_node_of_cpu(processor);
  return numa_node_usable(node) ? node : -1;
}

ScopedThreadProcessor::ScopedThreadProcessor(int processor) noexcept {
  if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof old_, &old_) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  bound_ = sched_setaffinity(0, sizeof one, &one) == 0;
}

ScopedThreadProcessor::~ScopedThreadProcessor() {
  if (bound_) sched_setaffinity(0, sizeof old_, &old_);
}

std::vector<Core> Processors::on_node(int numa_node) const {
  std::vector<Core> own;
  for (const auto& core : cores) {
    if (std::find(core.nodes.begin(), core.nodes.end(), numa_node) != core.nodes.end()) own.push_back(core);
  }
  return own.empty() ? cores : own;
}

Processors read_processors(const std::string& synthetic) {
  Processors found;
  if (const Topology topology = load_topology(synthetic)) {
    read_cores(topology.get(), synthetic.empty(), found);
    read_caches(topology.get(), found);
  }
  if (found.cores.empty()) {  // hwloc found nothing: treat every processor as a core
    const long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int i = 0; i < std::max(1L, count); ++i) {
      if (allowed(static_cast<unsigned>(i), true))
        found.cores.push_back({.processors = {i}, .nodes = {}, .package = 0});
    }
  }
  return found;
}

const Processors& processors() {
  static const Processors found = read_processors();
  return found;
}

std::vector<int> places(const std::vector<Core>& cores, unsigned threads, Binding binding) {
  const std::size_t count = threads == 0 ? cores.size() : threads;
  std::vector<int> chosen;
  if (count <= cores.size()) {
    for (std::size_t i = 0; i < count; ++i)
      chosen.push_back(cores[binding == Binding::spread ? i * cores.size() / count : i].processors.front());
    return chosen;
  }
  for (std::size_t turn = 0; chosen.size() < count; ++turn) {
    const std::size_t before = chosen.size();
    for (const auto& core : cores) {
      if (turn < core.processors.size() && chosen.size() < count) chosen.push_back(core.processors[turn]);
    }
    if (chosen.size() == before) return {};
  }
  return chosen;
}

}  // namespace isthmus::memory
