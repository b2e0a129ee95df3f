#pragma once

// The processors that this process may use: their numbers, the cores they belong to, the caches in front of memory.

#include <sched.h>

#include <cstddef>
#include <string>
#include <vector>

namespace isthmus::memory {

/// Logical processors of `node` that the calling thread may run on, ascending; -1: of all nodes. Empty for a node that
/// has memory only, and for one that is not there.
std::vector<int> usable_processors(int node);
/// The NUMA node of a logical processor, -1 where the kernel knows no nodes or that one has no memory for this process.
int memory_node_of_processor(int processor);

/// The calling thread stays on one logical processor in this scope; -1 changes nothing.
class ScopedThreadProcessor {
 public:
  explicit ScopedThreadProcessor(int processor) noexcept;
  ~ScopedThreadProcessor();
  ScopedThreadProcessor(const ScopedThreadProcessor&) = delete;
  ScopedThreadProcessor& operator=(const ScopedThreadProcessor&) = delete;
  /// Whether it runs there.
  bool bound() const noexcept { return bound_; }

 private:
  bool bound_ = false;
  cpu_set_t old_{};
};

struct Core {
  std::vector<int> processors;  ///< hardware threads of it that this process may use, by the kernel's numbers
  std::vector<int> nodes;       ///< NUMA nodes it belongs to: two where fast and slow memory lie beside it
  int package = 0;
};

struct Processors {
  std::vector<Core> cores;                 ///< in the machine's order; only those this process may use
  std::size_t last_level_cache_bytes = 0;  ///< all last-level caches of those cores together; 0: unknown
  std::size_t cache_line_bytes = 64;

  /// Cores of a node; all of them for -1 and for a node that has memory only.
  std::vector<Core> on_node(int numa_node) const;
};

/// Of this machine and this process (affinity, cgroups): hwloc's word. Asked anew at each call where `synthetic` is
/// given: a machine as hwloc's synthetic topologies describe it, all of which the process may use.
Processors read_processors(const std::string& synthetic = {});
/// The same for this machine, asked once.
const Processors& processors();

/// In which order threads take cores.
enum class Binding {
  spread,  ///< as far from each other as can be
  close,   ///< side by side
};
/// A processor for each of `threads`, 0 being as many as there are cores: one thread a core as long as there are cores,
/// then the cores' further hardware threads. Empty where there are fewer processors than threads.
std::vector<int> places(const std::vector<Core>& cores, unsigned threads, Binding binding);

}  // namespace isthmus::memory
