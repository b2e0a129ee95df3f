#pragma once

// Processors that this process may use: their numbers, cores and caches.

#include <sched.h>

#include <cstddef>
#include <string>
#include <vector>

namespace isthmus::memory {

/// Returns the logical processors of `node` that the calling thread may run on, ascending; those of all nodes for -1.
/// Empty if the node has memory only or does not exist.
std::vector<int> usable_processors(int node);
/// Returns the NUMA node of a logical processor; -1 if the kernel does not support nodes or the node has no memory for
/// this process.
int memory_node_of_processor(int processor);

/// Scope in which the calling thread stays on one logical processor; -1 changes nothing.
class ScopedThreadProcessor {
 public:
  explicit ScopedThreadProcessor(int processor) noexcept;
  ~ScopedThreadProcessor();
  ScopedThreadProcessor(const ScopedThreadProcessor&) = delete;
  ScopedThreadProcessor& operator=(const ScopedThreadProcessor&) = delete;
  /// Returns whether the thread was moved to the processor.
  bool bound() const noexcept { return bound_; }

 private:
  bool bound_ = false;
  cpu_set_t old_{};
};

struct Core {
  std::vector<int> processors;  ///< hardware threads of the core that this process may use, by the kernel's numbers
  std::vector<int> nodes;       ///< NUMA nodes of the core: two if it has both fast and slow memory
  int package = 0;
};

struct Processors {
  std::vector<Core> cores;                 ///< cores this process may use, in the machine's order
  std::size_t last_level_cache_bytes = 0;  ///< total size of all last-level caches of those cores; 0: unknown
  std::size_t cache_line_bytes = 64;

  /// Returns the cores of a node; all cores if `numa_node` is -1 or has memory only.
  std::vector<Core> on_node(int numa_node) const;
};

/// Reads the processors of this machine that this process may use (affinity, cgroups) from hwloc, again on each call.
/// `synthetic`: another machine, in the format of hwloc's synthetic topologies; the process may use all of it.
Processors read_processors(const std::string& synthetic = {});
/// Returns the processors of this machine; they are read once.
const Processors& processors();

/// Order in which threads are placed on cores.
enum class Binding {
  spread,  ///< threads as far from each other as possible
  close,   ///< threads on adjacent cores
};
/// Returns one processor for each of `threads` threads; 0 means as many threads as cores. Each thread gets a core to
/// itself while there are enough cores; further threads get the cores' other hardware threads. Empty if there are fewer
/// processors than threads.
std::vector<int> places(const std::vector<Core>& cores, unsigned threads, Binding binding);

}  // namespace isthmus::memory
