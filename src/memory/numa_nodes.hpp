#pragma once

#include <sched.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace isthmus::memory {

/// Highest NUMA node that has memory this process may use, -1 where the kernel knows no nodes or does not tell.
int highest_numa_node() noexcept;
bool numa_node_usable(int node) noexcept;
/// Nodes with memory this process may use, ascending; empty where the kernel knows no nodes or does not tell.
std::vector<int> usable_numa_nodes();
/// Bytes of a node that nobody uses, as libnuma has them; nullopt where the kernel does not tell.
std::optional<std::size_t> numa_node_free_bytes(int node) noexcept;
/// A node may have memory and no processors (Grace Hopper's HBM), or none that this process may use.
bool numa_node_has_processors(int node) noexcept;

/// Runs the calling thread, and threads it starts, on the processors of `node` (where it has any) and takes its memory
/// from there. False when the kernel refuses.
bool bind_thread(int node) noexcept;

/// The calling thread runs on the processors of `node` in this scope; -1, and a node without processors, change
/// nothing.
class ScopedThreadNode {
 public:
  explicit ScopedThreadNode(int node) noexcept;
  ~ScopedThreadNode();
  ScopedThreadNode(const ScopedThreadNode&) = delete;
  ScopedThreadNode& operator=(const ScopedThreadNode&) = delete;
  /// Whether it runs there.
  bool bound() const noexcept { return bound_; }

 private:
  bool bound_ = false;
  cpu_set_t old_{};
};

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

/// Whole pages from libnuma, which come from `node` when they are touched; nullptr where it has none to give.
void* allocate_on_node(std::size_t bytes, int node) noexcept;
void free_on_node(void* pointer, std::size_t bytes) noexcept;

/// The nodes on which up to `samples` pages, spread over the range, lie; pages whose node the kernel does not tell
/// (device mappings, pages not yet touched) are left out.
std::vector<int> nodes_of_pages(const void* begin, std::size_t bytes, std::size_t samples = 256);

}  // namespace isthmus::memory
