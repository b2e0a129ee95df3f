#include "memory/numa_nodes.hpp"

#include <numa.h>
#include <numaif.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace isthmus::memory {

namespace {

constexpr unsigned long kMaximumNodes = 1024;
constexpr std::size_t kBitsPerWord = 8 * sizeof(unsigned long);

/// Returns whether the machine's nodes are known. Without sysfs, libnuma assumes that node 0 is the only node.
bool available() noexcept {
  static const bool known = numa_available() >= 0 && access("/sys/devices/system/node", R_OK | X_OK) == 0;
  return known;
}

}  // namespace

int highest_numa_node() noexcept {
  if (!available()) return -1;
  int highest = -1;
  for (int node = 0; node <= numa_max_node(); ++node) {
    if (numa_node_usable(node)) highest = node;
  }
  return highest;
}

bool numa_node_usable(int node) noexcept {
  // A node that has memory only (Grace Hopper's HBM) is usable like any other: only its memory matters here.
  return available() && node >= 0 && node <= numa_max_node() && numa_bitmask_isbitset(numa_all_nodes_ptr, node) != 0;
}

std::vector<int> usable_numa_nodes() {
  std::vector<int> nodes;
  for (int node = 0; node <= highest_numa_node(); ++node) {
    if (numa_node_usable(node)) nodes.push_back(node);
  }
  return nodes;
}

std::optional<std::size_t> numa_node_free_bytes(int node) noexcept {
  if (!available() || node < 0 || node > numa_max_node()) return std::nullopt;
  long long free = 0;
  if (numa_node_size64(node, &free) < 0 || free < 0) return std::nullopt;
  return static_cast<std::size_t>(free);
}

bool numa_node_has_processors(int node) noexcept {
  if (!available() || node < 0 || node > numa_max_node()) return false;
  bitmask* cpus = numa_allocate_cpumask();
  bool found = false;
  if (numa_node_to_cpus(node, cpus) == 0) {
    for (unsigned cpu = 0; cpu < cpus->size && !found; ++cpu)
      found = numa_bitmask_isbitset(cpus, cpu) != 0 && numa_bitmask_isbitset(numa_all_cpus_ptr, cpu) != 0;
  }
  numa_free_cpumask(cpus);
  return found;
}

ScopedThreadNode::ScopedThreadNode(int node) noexcept {
  if (!numa_node_has_processors(node) || sched_getaffinity(0, sizeof old_, &old_) != 0) return;
  bound_ = numa_run_on_node(node) == 0;
}

ScopedThreadNode::~ScopedThreadNode() {
  if (bound_) sched_setaffinity(0, sizeof old_, &old_);
}

bool bind_thread(int node) noexcept {
  if (!numa_node_usable(node)) return false;
  if (numa_node_has_processors(node) && numa_run_on_node(node) != 0) return false;
  unsigned long nodes[kMaximumNodes / kBitsPerWord] = {};
  nodes[static_cast<std::size_t>(node) / kBitsPerWord] |= 1UL << (static_cast<std::size_t>(node) % kBitsPerWord);
  return set_mempolicy(MPOL_BIND, nodes, kMaximumNodes) == 0;
}

ScopedMemoryNode::ScopedMemoryNode(int node) noexcept {
  if (!numa_node_usable(node)) return;
  old_nodes_.assign(kMaximumNodes / kBitsPerWord, 0);
  if (get_mempolicy(&old_mode_, old_nodes_.data(), kMaximumNodes, nullptr, 0) != 0) return;
  unsigned long nodes[kMaximumNodes / kBitsPerWord] = {};
  nodes[static_cast<std::size_t>(node) / kBitsPerWord] |= 1UL << (static_cast<std::size_t>(node) % kBitsPerWord);
  active_ = set_mempolicy(MPOL_BIND, nodes, kMaximumNodes) == 0;
}

ScopedMemoryNode::~ScopedMemoryNode() {
  if (active_) set_mempolicy(old_mode_, old_nodes_.data(), kMaximumNodes);
}

void* allocate_on_node(std::size_t bytes, int node) noexcept {
  return numa_alloc_onnode(bytes, node);
}

void free_on_node(void* pointer, std::size_t bytes) noexcept {
  numa_free(pointer, bytes);
}

std::vector<int> nodes_of_pages(const void* begin, std::size_t bytes, std::size_t samples) {
  if (!available() || bytes == 0) return {};
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / page;
  const auto last = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1) / page;
  const std::size_t pages = last - first + 1;
  const std::size_t count = std::min(pages, std::max<std::size_t>(samples, 1));
  std::vector<void*> addresses(count);
  for (std::size_t i = 0; i < count; ++i) {
    addresses[i] = reinterpret_cast<void*>((first + i * pages / count) * page);
  }
  std::vector<int> status(count, -1);
  if (move_pages(0, count, addresses.data(), nullptr, status.data(), 0) != 0) return {};
  std::erase_if(status, [](int node) { return node < 0; });
  return status;
}

}  // namespace isthmus::memory
