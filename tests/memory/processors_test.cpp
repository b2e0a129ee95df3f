#include "memory/processors.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "memory/numa_nodes.hpp"
#include "memory/parallel.hpp"

namespace isthmus::memory {
namespace {

TEST(Processors, AreThoseThisProcessMayUse) {
  const auto all = usable_processors(-1);
  EXPECT_EQ(all.size(), host_threads());
  EXPECT_TRUE(std::ranges::is_sorted(all));
  std::size_t on_nodes = 0;
  for (int node = 0; node <= std::max(0, highest_numa_node()); ++node) on_nodes += usable_processors(node).size();
  EXPECT_LE(on_nodes, all.size());
  EXPECT_TRUE(usable_processors(100000).empty());
}

TEST(Processors, HoldAThreadWithinTheScope) {
  const auto all = usable_processors(-1);
  ASSERT_FALSE(all.empty());
  {
    const ScopedThreadProcessor on(all.back());
    EXPECT_TRUE(on.bound());
    EXPECT_EQ(usable_processors(-1), std::vector<int>{all.back()});
    EXPECT_EQ(sched_getcpu(), all.back());
  }
  EXPECT_EQ(usable_processors(-1), all);
}

TEST(Processors, ThatAreNoneHoldNobody) {
  const auto before = usable_processors(-1);
  for (const int none : {-1, CPU_SETSIZE - 1, CPU_SETSIZE + 1}) {
    const ScopedThreadProcessor nowhere(none);
    if (none < 0 || none >= CPU_SETSIZE) {
      EXPECT_FALSE(nowhere.bound());
    }
    EXPECT_EQ(usable_processors(-1).empty(), false);
  }
  EXPECT_EQ(usable_processors(-1), before);
  EXPECT_EQ(memory_node_of_processor(-1), -1);
}

TEST(Nodes, TellWhatIsFree) {
  const int node = highest_numa_node();
  EXPECT_FALSE(numa_node_free_bytes(-1));
  EXPECT_FALSE(numa_node_free_bytes(100000));
  if (node >= 0) {
    EXPECT_GT(numa_node_free_bytes(node).value_or(1), 0u);
  }
}

}  // namespace
}  // namespace isthmus::memory
