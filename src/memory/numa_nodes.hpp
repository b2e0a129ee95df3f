#pragma once

#include <sched.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace isthmus::memory {

/// Returns the highest NUMA node with memory this process may use; -1 if the kernel does not support or report nodes.
int highest_numa_node() noexcept;
bool numa_node_usable(int node) noexcept;
/// Returns the nodes with memory this process may use, ascending; empty if the kernel does not support or report nodes.
std::vector<int> usable_numa_nodes();
/// Returns the free bytes of a node according to libnuma; nullopt if the kernel does not report them.
std::optional<std::size_t> numa_node_free_bytes(int node) noexcept;
/// Returns whether the node has processors that this process may use; a node may have memory only (Grace Hopper's HBM).
bool numa_node_has_processors(int node) noexcept;

/// Restricts the calling thread, and threads it starts later, to the processors of `node` (if it has any) and to memory
/// from that node. Returns false if the kernel refuses.
bool bind_thread(int node) noexcept;

/// Scope in which the calling thread runs on the processors of `node`; has no effect if `node` is -1 or has no
/// processors.
class ScopedThreadNode {
 public:
  explicit ScopedThreadNode(int node) noexcept;
  ~ScopedThreadNode();
  ScopedThreadNode(const ScopedThreadNode&) = delete;
  ScopedThreadNode& operator=(const ScopedThreadNode&) = delete;
  /// Returns whether the thread was moved to the node.
  bool bound() const noexcept { return bound_; }

 private:
  bool bound_ = false;
  cpu_set_t old_{};
};

/// Scope in which memory first touched by the calling thread is placed on `node`; -1 changes nothing.
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

/// Allocates whole pages with libnuma, which are placed on `node` when they are touched; returns nullptr on failure.
void* allocate_on_node(std::size_t bytes, int node) noexcept;
void free_on_node(void* pointer, std::size_t bytes) noexcept;

/// Returns the nodes of up to `samples` pages, spread over the range; pages whose node the kernel does not report
/// (device mappings, pages not yet touched) are omitted.
std::vector<int> nodes_of_pages(const void* begin, std::size_t bytes, std::size_t samples = 256);

}  // namespace isthmus::memory
