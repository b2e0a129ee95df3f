// Tests of latency/*: chains, routes, and that latencies grow from one cache level of this machine to the next.

#include <algorithm>
#include <functional>
#include <set>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/plan/registry.hpp"
#include "harness/record/host_facts.hpp"
#include "microbench/chain.hpp"
#include "microbench/latency/follow.hpp"
#include "microbench/latency/routes.hpp"

namespace isthmus::microbench {
namespace {

constexpr std::size_t kLine = 64;

TEST(Chain, IsOneCycleThroughAllPlaces) {
  for (const std::size_t slots : {2u, 3u, 7u, 64u, 4096u, 4097u, 20000u}) {
    const Chain chain(slots, 42);
    std::vector<bool> seen(slots);
    std::size_t at = 0;
    for (std::size_t hop = 0; hop < slots; ++hop) {
      EXPECT_FALSE(seen[at]) << slots << " places: " << at << " comes twice";
      EXPECT_EQ(chain.end(hop), at) << slots;
      seen[at] = true;
      at = chain.next(at);
    }
    EXPECT_EQ(at, 0u) << "the chain of " << slots << " places does not come back to its start";
    EXPECT_EQ(chain.end(slots), 0u);
    EXPECT_EQ(chain.end(5 * slots + 1), chain.next(0));
  }
}

TEST(Chain, FollowsFromTheSeedAndGoesNowhereInOrder) {
  constexpr std::size_t slots = 4096;
  const Chain one(slots, 1), same(slots, 1), other(slots, 2);
  std::size_t equal = 0, neighbours = 0;
  for (std::size_t i = 0; i < slots; ++i) {
    EXPECT_EQ(one.next(i), same.next(i));
    equal += one.next(i) == other.next(i);
    neighbours += one.next(i) == i + 1 || one.next(i) + 1 == i;
  }
  EXPECT_LT(equal, 16u);
  EXPECT_LT(neighbours, 16u);  // few, because prefetchers exploit hops to neighbours; about two are expected
}

TEST(Chain, RefusesWhatIsNone) {
  EXPECT_THROW(Chain(1, 0), std::invalid_argument);
  EXPECT_THROW(Chain((std::size_t{1} << 32) + 1, 0), std::invalid_argument);
}

/// Returns the offsets that a reader of `memory` visits until it is back at the start.
std::vector<std::size_t> walk(const std::vector<std::byte>& memory, std::size_t first, std::uint64_t base) {
  std::vector<std::size_t> offsets;
  std::size_t at = first;
  do {
    offsets.push_back(at);
    std::uint64_t link = 0;
    std::memcpy(&link, memory.data() + at, sizeof link);
    at = link - base;
  } while (at != first && at < memory.size() && offsets.size() <= memory.size() / kLine);
  return offsets;
}

TEST(Links, AreOneCycleThatTouchesALineOfEachStrideOnce) {
  for (const std::size_t stride : {kLine, 2 * kLine, 4096ul}) {
    for (const std::uint64_t base : {std::uint64_t{0x1000}, std::uint64_t{0x7f0000000000}}) {
      const std::size_t slots = 1000;
      const Places places{.stride = stride, .line = kLine, .seed = 3};
      const Chain chain(slots, 3);
      std::vector<std::byte> memory(slots * stride);
      write_links(chain, places, memory.data(), true, base);
      const auto offsets = walk(memory, places.offset(0), base);
      ASSERT_EQ(offsets.size(), slots) << stride;
      std::set<std::size_t> lines, strides;
      for (const auto offset : offsets) {
        EXPECT_EQ(offset % kLine, 0u);
        lines.insert(offset / kLine);
        strides.insert(offset / stride);
      }
      EXPECT_EQ(lines.size(), slots) << stride;
      EXPECT_EQ(strides.size(), slots) << stride;
    }
  }
}

TEST(Links, OfALargeStrideUseAllSetsOfACache) {
  const Places places{.stride = 4096, .line = kLine, .seed = 3};
  std::vector<std::size_t> uses(4096 / kLine);
  for (std::size_t i = 0; i < 6400; ++i) ++uses[places.offset(i) % 4096 / kLine];
  EXPECT_GT(*std::ranges::min_element(uses), 50u);  // about 100 are expected for each set
  EXPECT_LT(*std::ranges::max_element(uses), 160u);
}

TEST(Links, ReachMemoryThatTheHostDoesNot) {
  const std::size_t slots = 3 * 4096 + 5, stride = 4096;  // enough to be copied from the host in several pieces
  const Places places{.stride = stride, .line = kLine, .seed = 5};
  const Chain chain(slots, 5);
  const memory::Block block(Kind::device, slots * stride);
  const auto base = reinterpret_cast<std::uint64_t>(block.device_data());
  write_links(chain, places, block.data(), false, base);
  std::vector<std::byte> memory(block.size());
  device::copy(memory.data(), block.data(), memory.size());
  EXPECT_EQ(walk(memory, places.offset(0), base).size(), slots);
}

TEST(Follow, GoesExactlyAsFarAsAsked) {
  const std::size_t slots = 777;
  const Places places{.seed = 1};
  const Chain chain(slots, 1);
  std::vector<std::byte> memory(slots * kLine);
  const auto base = reinterpret_cast<std::uint64_t>(memory.data());
  write_links(chain, places, memory.data(), true, base);
  for (const std::size_t hops : {0u, 1u, 127u, 128u, 129u, 1000u})
    EXPECT_EQ(latency::follow(base + places.offset(0), hops), base + places.offset(chain.end(hops))) << hops;
}

namespace latency_names {

using latency::reading_processor;
using latency::routes;

// Uses the description of a machine with two sockets, a GPU's memory as a node without processors (as on Grace), and a
// node with only processors, which is not a memory node.
TEST(Routes, NameEveryMemoryOfAMachineAndEveryReader) {
  std::set<std::string> names;
  const auto list = routes({2, {0, 1, 8}});
  for (const auto& route : list) names.insert(route.name());
  EXPECT_EQ(names.size(), list.size()) << "a name comes twice";
  for (const char* expected : {"pageable-cpu", "pageable-gpu1", "registered-cpu", "pinned-gpu0", "write_combined-cpu",
                               "mapped-gpu1", "managed-cpu", "managed-gpu0", "pool-gpu1", "gpu0-cpu", "gpu1-gpu0",
                               "gpu0-gpu0", "node0-node1", "node8-node0", "node1-node1"})
    EXPECT_TRUE(names.contains(expected)) << expected;
  EXPECT_FALSE(names.contains("pool-cpu"));
  EXPECT_FALSE(names.contains("pageable-gpu2"));
}

TEST(Routes, WithoutAGpuInThemAreMeasuredOnAnyMachine) {
  for (const auto& route : routes({1, {0, 1}})) {
    const auto name = route.name();
    EXPECT_EQ(route.cpu_only(), name == "pageable-cpu" || name.starts_with("node")) << name;
    for (const int gpu : route.gpus()) EXPECT_EQ(gpu, 0) << name;
  }
}

TEST(Routes, ReadFromTheMemorysNodeWhereItHasProcessors) {
  EXPECT_EQ(reading_processor({4, 5}, {0, 1, 4, 5}), 4);
  EXPECT_EQ(reading_processor({}, {2, 3}), 2);  // the node has memory but no processors
  EXPECT_EQ(reading_processor({}, {}), -1);
}

}  // namespace latency_names

class Latencies : public device::OnEmulatedMachine {};

void expect_latency(const std::string& name, const std::vector<std::string>& settings, std::size_t least = 1) {
  const auto results = run_cases(name, {}, {}, settings);
  EXPECT_GE(results.size(), least) << name;
  for (const auto& result : results) {
    EXPECT_EQ(complaint(result), "") << result.spec.label();
    const auto* latency = result.find("latency");
    ASSERT_NE(latency, nullptr) << result.spec.label();
    ASSERT_FALSE(latency->samples.empty()) << result.spec.label();
    EXPECT_GT(latency->samples.front(), 0) << result.spec.label();
  }
}

void expect_skip(const std::string& name, const std::vector<std::string>& settings, const std::string& reason) {
  const auto results = run_cases(name, {}, {}, settings);
  ASSERT_EQ(results.size(), 1u) << name;
  ASSERT_TRUE(results[0].skipped) << name << ": " << complaint(results[0]);
  EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
}

TEST_P(Latencies, OfEveryMemoryToEveryReader) {
  const bool shared = device::info(0).integrated;
  std::size_t measured = 0;
  for (const auto& route : latency::routes({device::count(), {0}})) {
    const auto name = "latency/" + route.name() + "/chase";
    const bool to_cpu = route.to.reader == Reader::cpu;
    if (to_cpu && route.from.kind == Kind::device && !shared) {
      expect_skip(name, {"bytes=8KiB"}, "does not share its memory");
    } else if (!to_cpu && route.from.kind == Kind::pinned) {
      expect_skip(name, {"bytes=8KiB"}, "only if it is mapped");  // a property of the emulated driver
    } else {
      // Some chains fit in a GPU's first-level cache and others do not; some hops go around the whole chain.
      expect_latency(name, {"bytes=1KiB,48KiB,2MiB", "hops=8,1001"}, 6);
      ++measured;
    }
  }
  EXPECT_GT(measured, 10u);
}

TEST_P(Latencies, TakePagesStridesAndColdCaches) {
  expect_latency("latency/pageable-cpu/chase", {"bytes=4MiB", "hops=1000", "pages=all", "stride=64,4KiB,8KiB"}, 9);
  expect_latency("latency/pageable-gpu0/chase", {"bytes=4MiB", "hops=1000", "pages=all", "stride=all"}, 6);
  expect_latency("latency/registered-cpu/chase", {"bytes=64KiB", "hops=1000", "cache=all", "node=all"}, 2);
  expect_latency("latency/node0-node0/chase", {"bytes=64KiB", "hops=1000", "cache=flushed"});
}

TEST_P(Latencies, ThatMeanNothingAreSkippedWithTheReason) {
  expect_skip("latency/pageable-cpu/chase", {"bytes=64"}, "two places");
  expect_skip("latency/pageable-cpu/chase", {"bytes=1000"}, "a size that is a multiple");
  expect_skip("latency/pageable-cpu/chase", {"bytes=64KiB", "stride=40"}, "share lines");
  expect_skip("latency/gpu0-gpu0/chase", {"bytes=64KiB", "stride=64"}, "share lines");
  expect_skip("latency/pageable-cpu/chase", {"bytes=64KiB", "hops=3000000000"}, "2^31");
  expect_skip("latency/pageable-cpu/chase", {"bytes=64KiB", "node=77"}, "NUMA node 77");
  expect_skip("latency/pageable-cpu/chase", {"bytes=64KiB", "processor=1000"}, "processor 1000");
  expect_skip("latency/node9-node0/chase", {"bytes=64KiB"}, "NUMA node 9");
  expect_skip("latency/node0-node9/chase", {"bytes=64KiB"}, "NUMA node 9");
  expect_skip("latency/pageable-gpu9/chase", {"bytes=64KiB"}, "gpu9 does not exist");
  expect_skip("latency/gpu9-gpu0/chase", {"bytes=64KiB"}, "gpu9 does not exist");
  expect_skip("latency/pageable-cpu/chase", {"bytes=64TiB"}, "");
}

INSTANTIATE_TEST_SUITE_P(Emulators, Latencies,
                         testing::Values("pageable_access=1",
                                         "warp=64,order=reverse,devices=2,pageable_access=1,integrated=1",
                                         "devices=2,pageable_access=1,concurrent_managed=0"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(Latency, WithoutSupportIsSkippedWithTheReason) {
  struct Lack {
    const char *machine, *name, *reason;
  };
  for (const auto& [machine, name, reason] :
       {Lack{"devices=2,peer=0", "latency/gpu0-gpu1/chase", "no peer access"},
        Lack{"managed=0", "latency/managed-cpu/chase", "no managed memory"},
        Lack{"managed=0", "latency/managed-gpu0/chase", "no managed memory"},
        Lack{"managed=0", "latency/static-gpu0/chase", "no managed memory"},
        Lack{"pageable_access=0", "latency/pageable-gpu0/chase", "pageable memory"},
        Lack{"map_host=0", "latency/mapped-gpu0/chase", "cannot map host memory"},
        Lack{"memory_pools=0", "latency/pool-gpu0/chase", "stream-ordered"}}) {
    emulator::configure(emulator::parse(machine));
    expect_skip(name, {"bytes=64KiB"}, reason);
  }
  emulator::configure({});
  emulator::reset();
}

TEST(Latency, ThatFailsIsAnErrorOfItsCaseAndLeavesNothingBehind) {
  const auto before = device::memory_info().free;
  for (const char* call : {"malloc_device:1", "malloc_device:2:oom", "copy:1", "event_record:1", "launch:1"}) {
    device::set_injection(call);
    const auto results = run_cases("latency/gpu0-gpu0/chase", {}, {}, {"bytes=64KiB", "hops=100"});
    device::set_injection("");
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error || results[0].skipped) << call;
    EXPECT_EQ(device::memory_info().free, before) << call;
  }
  for (const char* kind : {"pinned", "mapped", "managed", "registered", "static"}) {
    device::set_injection(std::string(kind) == "static"       ? "malloc_static_managed:1"
                          : std::string(kind) == "managed"    ? "malloc_managed:1:oom"
                          : std::string(kind) == "registered" ? "register_host:1"
                                                              : "malloc_pinned:1");
    const auto results = run_cases("latency/" + std::string(kind) + "-cpu/chase", {}, {}, {"bytes=64KiB", "hops=100"});
    device::set_injection("");
    EXPECT_TRUE(results.at(0).error || results.at(0).skipped) << kind;
  }
  EXPECT_EQ(complaint(run_cases("latency/gpu0-gpu0/chase", {}, {}, {"bytes=64KiB", "hops=100"})[0]), "");
}

TEST(Latency, OfTheCpuIsNoEmulation) {
  for (const char* name : {"latency/pageable-cpu/chase", "latency/node0-node0/chase"})
    EXPECT_FALSE(harness::is_emulated(*harness::find_workloads(name).at(0))) << name;
  EXPECT_TRUE(harness::is_emulated(*harness::find_workloads("latency/pinned-cpu/chase").at(0)));
}

// Cache levels further from the core have longer latencies, on every machine.
TEST(Latency, OfThisMachineGrowsFromLevelToLevel) {
  std::vector<std::size_t> sizes;
  std::size_t largest = 0;
  for (const auto& cache : harness::host_facts().caches) {
    if (cache.instructions) continue;
    // Chooses a size that is much smaller than this cache and much larger than the previous one, if possible.
    const std::size_t size = std::max(cache.bytes / 2, std::min(3 * largest, cache.bytes * 3 / 4));
    if (size > largest) sizes.push_back(size / 4096 * 4096);
    largest = std::max(largest, cache.bytes);
  }
  if (sizes.size() < 2) GTEST_SKIP() << "this machine tells nothing of its caches";
  sizes.push_back(std::min(8 * largest, std::size_t{512} << 20));
  if (sizes.back() <= largest) sizes.pop_back();
  // Interference from other work only adds time, so the test uses the best of as many samples as it needs.
  std::vector<double> best(sizes.size(), 1);
  const auto grows = [&] { return std::ranges::adjacent_find(best, std::ranges::greater_equal()) == best.end(); };
  for (int round = 0; round < 3 || (round < 30 && !grows()); ++round) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto results = run_cases("latency/pageable-cpu/chase", {}, {},
                                     {"bytes=" + std::to_string(sizes[i]), "hops=200000", "pages=huge"});
      ASSERT_EQ(complaint(results.at(0)), "");
      const auto* latency = results[0].find("latency");
      ASSERT_NE(latency, nullptr);
      best[i] = std::min(best[i], *std::ranges::min_element(latency->samples));
    }
  }
  for (std::size_t i = 0; i + 1 < best.size(); ++i)
    EXPECT_LT(best[i], best[i + 1]) << sizes[i] << " bytes should be nearer than " << sizes[i + 1];
}

}  // namespace
}  // namespace isthmus::microbench
