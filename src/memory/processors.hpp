#pragma once

#include <sched.h>

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

}  // namespace isthmus::memory
