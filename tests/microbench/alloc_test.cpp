// Tests of alloc/*: every allocator deallocates memory with the matching call.

#include <algorithm>
#include <csignal>
#include <set>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/plan/registry.hpp"
#include "harness/plan/workloads.hpp"
#include "harness/ranks/interrupt.hpp"

namespace isthmus::microbench {
namespace {

class Allocators : public device::OnEmulatedMachine {};

TEST_P(Allocators, GiveAndTakeBackEverySize) {
  const auto before = device::memory_info().free;
  std::set<std::string> seen;
  for (const auto* workload : harness::find_workloads("alloc/*")) {
    for (const auto& result : run_cases(workload->name(), {}, {}, {"bytes=2,4KiB,100001,2MiB", "at_once=1,3"}, {}, 2)) {
      if (result.skipped) {  // some sizes are smaller than a huge page, and some machines have no NUMA nodes
        EXPECT_TRUE(result.skipped->find("huge page") != std::string::npos ||
                    result.skipped->find("NUMA") != std::string::npos)
            << *result.skipped;
        continue;
      }
      EXPECT_EQ(complaint(result), "") << result.spec.label();
      std::vector<std::string> names;
      for (const auto& metric : result.metrics) {
        names.push_back(metric.name);
        for (const double value : metric.samples) EXPECT_GT(value, 0) << result.spec.label() << " " << metric.name;
      }
      std::ranges::sort(names);
      auto promised = workload->description().metrics;
      std::ranges::sort(promised);
      EXPECT_EQ(names, promised) << workload->name();
      seen.insert(workload->name());
    }
  }
  EXPECT_EQ(device::memory_info().free, before);
  for (const char* name : {"alloc/pageable", "alloc/pageable-touched", "alloc/mmap", "alloc/huge", "alloc/huge-touched",
                           "alloc/pinned", "alloc/mapped", "alloc/write_combined", "alloc/registered", "alloc/managed",
                           "alloc/managed-touched", "alloc/managed-gpu-touched", "alloc/device",
                           "alloc/device-gpu-touched", "alloc/pool", "alloc/vmm", "alloc/vmm-gpu-touched"})
    EXPECT_TRUE(seen.contains(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Emulators, Allocators,
                         testing::Values("warp=32", "devices=2,warp=64,order=reverse", "integrated=1"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(Allocator, WhoseMemoryCannotBeCheckedFailsItsCase) {
  for (const char* call : {"copy:1", "copy:4", "pointer_info:1"}) {
    device::set_injection(call);
    const auto results = run_cases("alloc/device", {}, {}, {"bytes=4KiB", "at_once=4"}, {}, 1);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error) << call;
    device::set_injection("");
  }
  EXPECT_EQ(complaint(run_cases("alloc/device", {}, {}, {"bytes=4KiB", "at_once=4"}, {}, 1)[0]), "");
}

TEST(Allocator, ThatFailsLeavesNothingBehind) {
  const auto before = device::memory_info().free;
  for (const char* call :
       {"reserve_addresses:1", "create_memory:2:oom", "map_memory:2", "set_access:2", "release_memory:2"}) {
    device::set_injection(call);
    const auto results = run_cases("alloc/vmm", {}, {}, {"bytes=4KiB", "at_once=3"}, {}, 1);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error || results[0].skipped) << call;
    device::set_injection("");
    if (std::string(call).find("release") == std::string::npos) {
      EXPECT_EQ(device::memory_info().free, before) << call;
    }
  }
}

/// Runs alloc/pinned with 10 blocks of 64 MiB and an injected event such as an interrupt (SIGINT).
harness::CaseResult run_injected(const std::string& injection) {
  static_cast<void>(std::signal(SIGINT, SIG_DFL));  // a shell makes background commands ignore SIGINT
  harness::catch_interrupts();
  device::set_injection(injection);
  const auto results = run_cases("alloc/pinned", {}, {}, {"bytes=64MiB", "at_once=10"}, {}, 5);
  device::set_injection("");
  harness::clear_interrupt();
  EXPECT_EQ(results.size(), 1u);
  return results.at(0);
}

TEST(Allocator, IsInterruptedBetweenTwoCalls) {
  const auto before = device::memory_info().free;
  // Call 1 measures `first`, the first sample makes calls 2 to 11, and call 28 is in the third sample.
  const auto result = run_injected("malloc_pinned:28:interrupt");
  EXPECT_EQ(complaint(result), "");
  EXPECT_TRUE(result.interrupted);
  for (const char* name : {"alloc", "free"}) {
    ASSERT_NE(result.find(name), nullptr);
    EXPECT_EQ(result.find(name)->samples.size(), 2u) << "the third was in progress";
    EXPECT_EQ(result.find(name)->stop, harness::Stop::interrupted);
  }
  EXPECT_EQ(result.find("first")->samples.size(), 1u);
  EXPECT_EQ(device::memory_info().free, before);
}

TEST(Allocator, InterruptedAtOnceKeepsItsFirstCall) {
  for (const int call : {1, 2, 9}) {
    const auto result = run_injected("malloc_pinned:" + std::to_string(call) + ":interrupt");
    ASSERT_TRUE(result.error) << call;
    EXPECT_EQ(*result.error, "interrupted before the first sample");
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.metrics.size(), call == 1 ? 0u : 1u);
  }
}

TEST(Allocator, InterruptedMakesNoFurtherCalls) {
  // After the interrupt, only the check allocates, and it needs only two blocks. A third call would make the case fail.
  const auto result = run_injected("malloc_pinned:12:interrupt,malloc_pinned:14");
  EXPECT_EQ(complaint(result), "");
  EXPECT_EQ(result.find("alloc")->samples.size(), 1u);
}

TEST(Allocator, ThatADeviceLacksIsSkippedWithTheReason) {
  struct Lack {
    const char *machine, *name, *reason;
  };
  for (const auto& [machine, name, reason] : {Lack{"virtual_memory=0", "alloc/vmm", "cannot map device memory"},
                                              Lack{"memory_pools=0", "alloc/pool", "no stream-ordered allocation"},
                                              Lack{"managed=0", "alloc/managed", "no managed memory"},
                                              Lack{"map_host=0", "alloc/mapped", "cannot map host memory"},
                                              Lack{"memory=1MiB", "alloc/device", "device memory"}}) {
    emulator::configure(emulator::parse(machine));
    const auto results = run_cases(name, {}, {}, {"bytes=2MiB"}, {}, 1);
    ASSERT_EQ(results.size(), 1u) << name;
    ASSERT_TRUE(results[0].skipped) << name << ": " << complaint(results[0]);
    EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
  }
  emulator::configure({});
  emulator::reset();
  const auto results = run_cases("alloc/node", {}, {}, {"bytes=4KiB", "node=77"}, {}, 1);
  ASSERT_EQ(results.size(), 1u);
  ASSERT_TRUE(results[0].skipped);
  EXPECT_NE(results[0].skipped->find("NUMA"), std::string::npos) << *results[0].skipped;
}

TEST(Allocator, HoldsNoMoreAtOnceThanWasSaid) {
  for (const auto& result : run_cases("alloc/*", {}, {}, {"bytes=32,64MiB"}, {}, 1)) {
    if (result.skipped) continue;
    const auto* metric = result.find("alloc");
    ASSERT_NE(metric, nullptr) << result.spec.label();
    EXPECT_EQ(metric->batch % (result.spec.integer("bytes") == 32 ? 100 : 1), 0) << result.spec.label();
  }
}

TEST(Allocator, OfTheHostNeedsNoDevice) {
  for (const auto* workload : harness::find_workloads("alloc/*")) {
    const auto& name = workload->name();
    const bool host = name.starts_with("alloc/pageable") || name.starts_with("alloc/mmap") ||
                      name.starts_with("alloc/huge") || name.starts_with("alloc/node");
    EXPECT_EQ(workload->description().cpu_only, host) << name;
  }
}

TEST(Allocator, TouchesCostMoreThanNothing) {
  // This is real memory, even on the emulator: the first touch of a page causes a page fault, the second does not.
  const auto results = run_cases("alloc/mmap-touched", {}, {}, {"bytes=4MiB", "at_once=4"}, {}, 5);
  ASSERT_EQ(results.size(), 1u);
  ASSERT_EQ(complaint(results[0]), "");
  // Compares minima, because interference from other work only adds time.
  const auto least = [&](const char* metric) { return std::ranges::min(results[0].find(metric)->samples); };
  EXPECT_GT(least("touch"), least("touch_again"));
}

}  // namespace
}  // namespace isthmus::microbench
