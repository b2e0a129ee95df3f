#pragma once

#include <cstddef>
#include <vector>

namespace isthmus::memory {

/// Highest NUMA node that has memory this process may use, -1 where the kernel knows no nodes.
int highest_numa_node() noexcept;
bool numa_node_usable(int node) noexcept;
/// Nodes that have memory this process may use, ascending; empty where the kernel knows none.
std::vector<int> usable_numa_nodes();

/// Runs the calling thread, and threads it starts, on the processors of `node` (where it has any) and takes its memory
/// from there. False when the kernel refuses.
bool bind_thread(int node) noexcept;

/// Memory that the calling thread first touches in this scope lies on `node`; -1 changes nothing.
class ScopedMemoryNode {
 public:
  explicit ScopedMemoryNode(int node) noexcept;
  ~ScopedMemoryNode();
  ScopedMemoryNode(const ScopedMemoryNode&) = delete;
  ScopedMemoryNode& operator=(const ScopedMemoryNode&) = delete;

 private:
  bool active_ = false;
  int old_mode_ = 0;
  std::vector<unsigned long> old_nodes_;
};

/// The nodes on which up to `samples` pages, spread over the range, lie; pages whose node the kernel does not tell
/// (device mappings, pages not yet touched) are left out.
std::vector<int> nodes_of_pages(const void* begin, std::size_t bytes, std::size_t samples = 256);

}  // namespace isthmus::memory
