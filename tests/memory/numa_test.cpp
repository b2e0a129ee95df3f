#include "memory/numa_nodes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace isthmus::memory {
namespace {

TEST(Numa, NodesThatAreNoneAreNotUsable) {
  EXPECT_FALSE(numa_node_usable(-1));
  EXPECT_FALSE(numa_node_usable(100000));
  EXPECT_FALSE(bind_thread(100000));
}

TEST(Numa, PagesLieOnTheNodeAskedFor) {
  const int node = highest_numa_node();
  if (node < 0) GTEST_SKIP() << "this kernel knows no NUMA nodes";
  std::vector<char> bytes;
  {
    const ScopedMemoryNode on_node(node);
    bytes.assign(1 << 20, 1);
  }
  const auto nodes = nodes_of_pages(bytes.data(), bytes.size());
  if (nodes.empty()) GTEST_SKIP() << "this kernel does not tell where pages lie";
  EXPECT_TRUE(std::all_of(nodes.begin(), nodes.end(), [&](int n) { return n == node; }));
}

TEST(Numa, ScopeOfNoNodeChangesNothing) {
  const ScopedMemoryNode nowhere(-1);
  const ScopedMemoryNode wrong(100000);
}

}  // namespace
}  // namespace isthmus::memory
