#include "memory/processors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../temporary_path.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/parallel.hpp"
#include "memory/topology.hpp"

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

/// Returns the numbers of cores and NUMA nodes that hwloc finds when one of its environment variables is set.
std::pair<int, int> found_with(const char* variable, const std::string& value) {
  if (variable != nullptr) setenv(variable, value.c_str(), 1);
  const auto topology = load_topology();
  if (variable != nullptr) {
    EXPECT_EQ(getenv(variable), value);
    unsetenv(variable);
  }
  if (!topology) return {0, 0};
  return {hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE),
          hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE)};
}

TEST(Topology, IsOfThisMachineWhateverVariablesSay) {
  const auto here = found_with(nullptr, "");
  ASSERT_GT(here.second, 0);
  const auto file = temporary_path("topology.xml");
  std::ofstream(file) << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                         "<topology version=\"3.0\">\n</topology>\n";
  EXPECT_EQ(found_with("HWLOC_XMLFILE", file), here);
  EXPECT_EQ(found_with("HWLOC_XMLFILE", file + ".absent"), here);
  EXPECT_EQ(found_with("HWLOC_SYNTHETIC", "pack:2 numa:2 core:9 pu:1"), here);
  std::filesystem::remove(file);
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

std::vector<int> first_processors(const std::vector<Core>& cores) {
  std::vector<int> list;
  for (const auto& core : cores) list.push_back(core.processors.front());
  return list;
}

TEST(Processors, AreThoseOfThisProcess) {
  const auto& found = processors();
  std::set<int> distinct;
  for (const auto& core : found.cores) {
    ASSERT_FALSE(core.processors.empty());
    distinct.insert(core.processors.begin(), core.processors.end());
  }
  EXPECT_EQ(distinct.size(), host_threads());
  EXPECT_GT(found.last_level_cache_bytes, 0u);
}

TEST(Processors, OfAMachineWithTwoNodesAndTwoThreadsACore) {
  const auto machine = read_processors("[numa] pack:2 [numa] l3:2(size=8MiB) core:3 pu:2");
  ASSERT_EQ(machine.cores.size(), 12u);
  for (const auto& core : machine.cores) EXPECT_EQ(core.processors.size(), 2u);
  EXPECT_EQ(machine.last_level_cache_bytes, std::size_t{4} * (8 << 20));
  const auto all = places(machine.cores, 0, Binding::close);
  EXPECT_EQ(all, first_processors(machine.cores));
  // Each core gets one thread before any core gets two.
  const auto more = places(machine.cores, 13, Binding::close);
  ASSERT_EQ(more.size(), 13u);
  EXPECT_EQ(more.back(), machine.cores[0].processors[1]);
  EXPECT_EQ(places(machine.cores, 24, Binding::spread).size(), 24u);
  EXPECT_TRUE(places(machine.cores, 25, Binding::spread).empty());
}

TEST(Processors, AreTakenSideBySideOrFarApart) {
  const auto machine = read_processors("pack:2 core:4 pu:1");
  EXPECT_EQ(places(machine.cores, 2, Binding::close), (std::vector<int>{0, 1}));
  EXPECT_EQ(places(machine.cores, 2, Binding::spread), (std::vector<int>{0, 4}));
  EXPECT_EQ(places(machine.cores, 3, Binding::spread), (std::vector<int>{0, 2, 5}));
}

TEST(Processors, OfANodeAreItsOwnAndOfAMemoryOnlyNodeAll) {
  const auto machine = read_processors("pack:2 [numa] core:4 pu:1");
  EXPECT_EQ(first_processors(machine.on_node(1)), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(machine.on_node(-1).size(), 8u);
  EXPECT_EQ(machine.on_node(9).size(), 8u) << "a node that has memory only";
}

}  // namespace
}  // namespace isthmus::memory
