// Tests of faults/* on emulated machines, observed through the driver's emulated event queue.

#include <algorithm>
#include <map>
#include <utility>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/program/oversubscribe.hpp"
#include "microbench/fault_patterns/shared_region.hpp"
#include "observed.hpp"

namespace isthmus::microbench::fault_patterns {
namespace {

constexpr double kMi = 1 << 20;

class Faults : public device::EmulatorTest {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    configure("workers=1,memory=256MiB");
  }
  static harness::CaseResult observed(const std::string& workload, std::vector<std::string> settings, int samples = 1,
                                      std::vector<std::string> placements = {}) {
    return microbench::observed("faults/" + workload, std::move(settings), samples, std::move(placements));
  }
  static void expect_skip(const std::string& workload, const std::vector<std::string>& settings, const char* reason) {
    const auto result = run_cases("faults/" + workload, {}, {}, settings).front();
    ASSERT_TRUE(result.skipped) << complaint(result);
    EXPECT_NE(result.skipped->find(reason), std::string::npos) << *result.skipped;
  }
};

// The emulated device's managed memory is host memory, so pages are never evicted. Nevertheless, every page is checked.
TEST_F(Faults, BeyondTheDevicesMemoryEveryPageIsRight) {
  configure("workers=1,memory=16MiB");
  expect_skip("regular", {"bytes=20MiB"}, "at most half of the");
  for (const char* pattern : {"regular", "random", "strided"}) {
    harness::RequestTexts request;
    request.patterns = {std::string("faults/") + pattern};
    auto cases = harness::plan(harness::parse_request(request));
    harness::set_footprints(cases, 1.25, 16 << 20, std::size_t{8} << 30);
    harness::RunContext context;
    context.device = device::info(0);
    context.sampling.samples = 1;
    const auto result = harness::run_case(cases.front(), context);
    ASSERT_EQ(complaint(result), "") << pattern;
    EXPECT_EQ(result.spec.integer("bytes"), 20 << 20);
    EXPECT_EQ(result.notes.count("oversubscribe"), 1u);
  }
}

// In a cold run without the prefetcher, each page faults once, and page faults move exactly the bytes of the footprint.
TEST_F(Faults, WithoutThePrefetcherEachPageFaultsOnceAndNothingElseMoves) {
  for (const char* pattern : {"regular", "random"}) {
    for (const char* access : {"access=read", "access=write", "access=atomic"}) {
      const auto result = observed(pattern, {"bytes=4MiB", access, "driver_prefetch=off"}, 2);
      ASSERT_EQ(complaint(result), "") << pattern << " " << access;
      EXPECT_EQ(value(result, "uvm_pages"), 1024);
      EXPECT_EQ(value(result, "uvm_faults"), 1024);
      EXPECT_EQ(value(result, "uvm_fault_bytes"), 4 * kMi);
      EXPECT_EQ(value(result, "uvm_prefetch_bytes"), 0);
      EXPECT_EQ(value(result, "uvm_cpu_faults"), 0) << "what the host prepares is no part of the sample";
      EXPECT_GT(value(result, "driver_prefetch_setup"), 0);
      EXPECT_EQ(*result.spec.find("driver_prefetch"), harness::AxisValue("off"));
    }
  }
}

TEST_F(Faults, WithThePrefetcherTheSameBytesMoveForFewerFaults) {
  const auto result = observed("random", {"bytes=4MiB"});
  ASSERT_EQ(complaint(result), "");
  EXPECT_LT(value(result, "uvm_faults"), 1024);
  EXPECT_GT(value(result, "uvm_prefetch_bytes"), 0);
  EXPECT_EQ(value(result, "uvm_fault_bytes") + value(result, "uvm_prefetch_bytes"), 4 * kMi);
  EXPECT_EQ(result.find("driver_prefetch_setup"), nullptr);
}

TEST_F(Faults, OfABlockSoManyPagesAreTouched) {
  const auto some = observed("regular", {"bytes=8MiB", "touched=24", "driver_prefetch=off"});
  ASSERT_EQ(complaint(some), "");
  EXPECT_EQ(value(some, "uvm_pages"), 4 * 24);
  EXPECT_EQ(value(some, "uvm_block_faults"), 24);
  const auto apart = observed("strided", {"bytes=8MiB", "stride=700", "driver_prefetch=off"});
  ASSERT_EQ(complaint(apart), "");
  EXPECT_EQ(value(apart, "uvm_pages"), (2048 + 699) / 700);
}

TEST_F(Faults, ThreadsShareAPage) {
  for (const char* access : {"access=read", "access=write", "access=atomic"}) {
    const auto result =
        observed("random", {"bytes=2MiB", "touched=40", "threads_per_page=33", access, "driver_prefetch=off"});
    ASSERT_EQ(complaint(result), "") << access;
    EXPECT_EQ(value(result, "uvm_pages"), 40);
  }
}

TEST_F(Faults, TheSurrogatesFindTheSamePages) {
  for (const char* setting : {"visit=second", "host_pages=unmapped", "host_threads=3", "host_threads=0"}) {
    const auto result = observed("regular", {"bytes=2MiB", "driver_prefetch=64KiB", setting}, 2);
    ASSERT_EQ(complaint(result), "") << setting;
    EXPECT_EQ(value(result, "uvm_pages") * 4096, value(result, "uvm_fault_bytes")) << setting;
    EXPECT_EQ(value(result, "uvm_fault_bytes") + value(result, "uvm_prefetch_bytes"), 2 * kMi) << setting;
    EXPECT_EQ(value(result, "uvm_user_bytes"), 0) << "the way there and back is prepared";
  }
}

/// Returns the bytes that were moved, keyed by source and destination processor. Processor 0 is the CPU.
std::map<std::pair<int, int>, double> ways(const harness::CaseResult& result) {
  std::map<std::pair<int, int>, double> bytes;
  for (const auto& table : result.tables) {
    if (table.name != "uvm_migrations") continue;
    const auto column = [&](const char* name) {
      const auto at = std::find(table.columns.begin(), table.columns.end(), name) - table.columns.begin();
      return table.values.at(static_cast<std::size_t>(at));
    };
    const auto from = column("source"), to = column("destination"), size = column("bytes");
    for (std::size_t i = 0; i < size.size(); ++i)
      bytes[{static_cast<int>(from[i]), static_cast<int>(to[i])}] += size[i];
  }
  return bytes;
}

TEST_F(Faults, PagesOfTheNextGpuComeFromThere) {
  configure("workers=1,memory=256MiB,devices=2");
  for (const char* access : {"access=read", "access=write"}) {
    for (const char* order : {"order=regular", "order=random"}) {
      const auto result = observed("peers", {"bytes=4MiB", access, order, "driver_prefetch=off"}, 2);
      ASSERT_EQ(complaint(result), "") << access << order;
      EXPECT_EQ(value(result, "uvm_pages"), 1024);
      EXPECT_EQ(value(result, "uvm_fault_bytes"), 4 * kMi);
      EXPECT_EQ(value(result, "uvm_prefetch_bytes") + value(result, "uvm_cpu_faults"), 0);
      EXPECT_EQ(ways(result), (std::map<std::pair<int, int>, double>{{{2, 1}, 2 * 4 * kMi}})) << "two samples";
    }
  }
  const auto prefetched = observed("peers", {"bytes=4MiB", "order=random"});
  ASSERT_EQ(complaint(prefetched), "");
  EXPECT_GT(value(prefetched, "uvm_prefetch_bytes"), 0);
  EXPECT_EQ(value(prefetched, "uvm_fault_bytes") + value(prefetched, "uvm_prefetch_bytes"), 4 * kMi);
}

TEST_F(Faults, TwoGpusThatTouchTheSamePagesTakeThemFromEachOther) {
  configure("workers=2,memory=256MiB,devices=2");
  for (const char* access : {"access=read", "access=write"}) {
    const auto result =
        observed("peers", {"bytes=4MiB", "touching=both", "passes=4", access, "driver_prefetch=off"}, 2);
    ASSERT_EQ(complaint(result), "") << access;
    EXPECT_EQ(value(result, "uvm_cpu_faults"), 0);
    const auto bytes = ways(result);
    // A page that its owner touches first can also be accessed by the other GPU (paging.hpp), so the number of bytes
    // moved is not known in advance.
    EXPECT_GT(bytes.at({2, 1}), 0);
    EXPECT_EQ(bytes.size(), bytes.count({2, 1}) + bytes.count({1, 2})) << "nothing goes by the host";
  }
}

TEST_F(Faults, PeersNeedASecondGpuThatTakesFaults) {
  expect_skip("peers", {"bytes=2MiB"}, "gpu1 does not exist");
  configure("devices=2,peer=0");
  expect_skip("peers", {"bytes=2MiB"}, "no peer access");
  EXPECT_EQ(complaint(run_cases("faults/peers", {}, {}, {"bytes=2MiB", "peer_access=off"}, {}, 1).front()), "");
  configure("devices=2,memory=256MiB");
  expect_skip("peers", {"bytes=3MiB"}, "not a multiple");
  expect_skip("peers", {"bytes=160MiB"}, "at most half of");
}

TEST_F(Faults, PageableMemoryIsReachedWhereTheMachineCan) {
  expect_skip("regular", {"bytes=2MiB", "memory=pageable"}, "cannot read pageable memory");
  configure("pageable_access=1");
  for (const auto& result :
       run_cases("faults/random", {}, {}, {"bytes=2MiB", "memory=pageable", "pages=all", "access=atomic"}, {}, 1))
    EXPECT_EQ(complaint(result), "") << result.spec.label();
  expect_skip("regular", {"bytes=2MiB", "pages=huge"}, "the runtime chooses the pages of managed memory");
  expect_skip("regular", {"bytes=2MiB", "memory=pageable", "driver_prefetch=off"}, "is for managed memory");
  expect_skip("regular", {"bytes=2MiB", "memory=pageable", "host_pages=unmapped"}, "mapped on the host");
}

TEST_F(Faults, WhatIsTooMuchIsRefusedInASentence) {
  expect_skip("regular", {"bytes=98GiB"}, "uses at most 48 GiB; choose a smaller size");
  expect_skip("regular", {"bytes=160MiB"}, "at most half of the 256 MiB that are free");
  expect_skip("latency", {"bytes=160MiB", "memory=managed"}, "at most half of");
  expect_skip("regular", {"bytes=4GiB", "driver_prefetch=off"}, "driver_prefetch=off supports at most 2 GiB");
  expect_skip("regular", {"bytes=3MiB"}, "not a multiple");
  expect_skip("regular", {"bytes=2MiB", "threads_per_page=257"}, "at most 256 threads");
  const auto programs = run_cases("faults/stream", {}, {"managed_demand"}, {"n=14000000"}).front();
  ASSERT_TRUE(programs.skipped);
  EXPECT_NE(programs.skipped->find("at most half of"), std::string::npos) << *programs.skipped;
  configure("concurrent_managed=0");
  expect_skip("regular", {"bytes=2MiB"}, "does not fault on managed memory");
}

// The values read are right in both orders, so only the driver's events show which order was used.
TEST_F(Faults, LatencyOfPagesInTheirOrderAndInNone) {
  const std::vector<std::string> settings{"bytes=8MiB", "memory=managed", "driver_prefetch=off"};
  auto with_order = settings;
  with_order.emplace_back("order=random");
  const auto regular = observed("latency", settings), random = observed("latency", with_order);
  for (const auto* each : {&regular, &random}) {
    ASSERT_EQ(complaint(*each), "");
    EXPECT_EQ(value(*each, "uvm_pages"), 2048);
  }
  EXPECT_EQ(*regular.spec.find("order"), harness::AxisValue("regular"));
  EXPECT_EQ(value(regular, "uvm_batch_blocks"), 1) << "256 faults are half a block";
  EXPECT_GT(value(random, "uvm_batch_blocks"), 3) << "of the four there are";
}

TEST_F(Faults, LatencyByFaultsAndByCopies) {
  const auto results = run_cases("faults/latency", {}, {}, {"bytes=4KiB,64KiB,2MiB", "memory=all", "order=all"}, {}, 2);
  ASSERT_EQ(results.size(), 18u);
  for (const auto& result : results) {
    EXPECT_EQ(complaint(result), "") << result.spec.label();
    EXPECT_NEAR(value(result, "page_time") * static_cast<double>(result.spec.integer("bytes")) / 4096,
                value(result, "time"), 1e-12);
  }
  const auto faulted = observed("latency", {"bytes=64KiB", "memory=managed", "driver_prefetch=off"});
  EXPECT_EQ(complaint(faulted), "");
  EXPECT_EQ(value(faulted, "uvm_pages"), 16);
  EXPECT_EQ(value(faulted, "uvm_prefetch_bytes"), 0);
  const auto copied = observed("latency", {"bytes=64KiB", "memory=pinned"});
  EXPECT_EQ(complaint(copied), "");
  EXPECT_EQ(value(copied, "uvm_faults"), 0);
}

TEST_F(Faults, ProgramsInEveryPlacement) {
  for (const char* workload : {"faults/stream", "faults/sgemm"}) {
    for (const auto& result : run_cases(workload, {}, {"all"}, {"n=97"}, {}, 1)) {
      if (result.skipped) continue;
      EXPECT_EQ(complaint(result), "") << result.spec.label();
    }
  }
  // Page faults of the emulated BLAS library cannot be observed, so this test observes only faults/stream.
  const auto result = observed("stream", {"n=100000", "driver_prefetch=off"}, 1, {"managed_demand"});
  ASSERT_EQ(complaint(result), "");
  EXPECT_GE(value(result, "uvm_pages"), 3 * 400'000 / 4096);
  EXPECT_EQ(value(result, "uvm_prefetch_bytes"), 0);
  EXPECT_GT(value(result, "driver_prefetch_setup"), 0);
}

// The range groups that disable the prefetcher also disable it for the host: a host with an H200 took over a minute for
// samples of 1.5 GiB that begin and end in host memory. The host therefore reads back little: three arrays of 64 MiB.
TEST_F(Faults, PresetsAreThePapersAndTakeNoMinute) {
  for (const char* workload : {"faults/regular", "faults/random"}) case_of_table3(workload);
  EXPECT_EQ(*case_of_table3("faults/stream").find("n"), harness::AxisValue(16 << 20));
  EXPECT_EQ(*case_of_table3("faults/sgemm").find("n"), harness::AxisValue(4096));
  expect_table3("faults/regular", "bytes=2MiB");
  expect_table3("faults/random", "bytes=2MiB");
  expect_table3("faults/stream", "n=16384", {"managed_demand"});
  // The emulator's BLAS library causes no page faults, so faults/sgemm has no batches of page faults.
  EXPECT_EQ(complaint(microbench::observed("faults/sgemm", {"n=64"}, 1, {"managed_demand"}, "paper-table3")), "");
}

}  // namespace
}  // namespace isthmus::microbench::fault_patterns
