// Tests of fault/*: page faults of the CPU on the machine that runs the test, and page faults of GPUs on emulated
// machines.

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/measure/results/statistics.hpp"
#include "harness/plan/registry.hpp"
#include "harness/plan/workloads.hpp"
#include "memory/pages.hpp"
#include "microbench/fault_cost/family.hpp"
#include "microbench/fault_cost/kernels.hpp"
#include "microbench/fault_cost/page_workers.hpp"

#if defined(__SANITIZE_ADDRESS__)
// Keeps AddressSanitizer's malloc from writing to the first page of a block, because pages must be untouched before the
// test.
extern "C" const char* __asan_default_options() {
  return "max_malloc_fill_size=0";
}
#endif

namespace isthmus::microbench::fault_cost {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kOwnFaultsOnly = false;  // the sanitizer's pages fault in addition to those that a test touches
#else
constexpr bool kOwnFaultsOnly = true;
#endif
constexpr const char* kOthers = "the sanitizer's pages fault, too";

using harness::CaseResult;

std::vector<double> samples_of(const CaseResult& result, const char* name) {
  const auto* metric = result.find(name);
  return metric == nullptr ? std::vector<double>{} : metric->samples;
}

void expect_skip(const std::string& name, const std::vector<std::string>& settings, const std::string& reason) {
  const auto results = run_cases(name, {}, {}, settings);
  ASSERT_EQ(results.size(), 1u) << name;
  ASSERT_TRUE(results[0].skipped) << name << ": " << complaint(results[0]);
  EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
}

/// Runs cases and returns their results. Repeats them up to four times if all samples of a case were invalid: on a busy
/// machine the baseline may take longer than the page faults, which invalidates a sample.
std::vector<CaseResult> run_timed(const std::string& name, const std::vector<std::string>& settings, int samples) {
  for (int attempt = 1;; ++attempt) {
    auto results = run_cases(name, {}, {}, settings, {}, samples);
    const auto was_busy = [](const CaseResult& result) {
      return complaint(result).find("(below_baseline)") != std::string::npos;
    };
    if (attempt == 5 || std::none_of(results.begin(), results.end(), was_busy)) return results;
  }
}

// --- CPU ---------------------------------------------------------------------------------------------

TEST(CpuFaults, AreCountedOneForEachTouch) {
  if (!kOwnFaultsOnly) GTEST_SKIP() << kOthers;
  std::size_t passed = 0;
  for (const auto& event : events()) {
    const auto name = "fault/cpu/" + std::string(event.name);
    for (const auto& result : run_timed(name, {"at_once=1,7,64", "threads=1,2"}, 2)) {
      if (result.skipped) continue;  // this machine does not support the case; enough cases must pass, as checked below
      EXPECT_EQ(complaint(result), "") << result.spec.label();
      const auto counted = samples_of(result, "faults_per_touch");
      ASSERT_FALSE(counted.empty()) << result.spec.label();
      // Page faults are counted while they are timed, so each sample has a count.
      EXPECT_EQ(counted.size(), samples_of(result, "time").size());
      for (const double count : counted) EXPECT_NEAR(count, 1, 0.05 + 8.0 / result.spec.integer("at_once"));
      ++passed;
    }
  }
  // The events anonymous, zero-page and mapped work on every machine, except for two threads on one page.
  EXPECT_GE(passed, 3u * 5u);
}

TEST(CpuFaults, RecordTheBaselineAndWhatRemainsWithoutIt) {
  if (!kOwnFaultsOnly) GTEST_SKIP() << kOthers;
  for (const auto& result : run_timed("fault/cpu/anonymous", {"at_once=512", "threads=1", "pages=small"}, 3)) {
    ASSERT_EQ(complaint(result), "");
    const auto time = samples_of(result, "time"), faulting = samples_of(result, "time_faulting"),
               present = samples_of(result, "time_present"), rate = samples_of(result, "rate");
    ASSERT_EQ(time.size(), present.size());
    for (std::size_t i = 0; i < time.size(); ++i) {
      EXPECT_NEAR(time[i], faulting[i] - present[i], 1e-15);
      if (time[i] > 0) {
        EXPECT_NEAR(rate[i] * time[i], 1, 1e-9);
      }
    }
    const auto p50 = samples_of(result, "p50"), p95 = samples_of(result, "p95"), p99 = samples_of(result, "p99");
    const auto raw = samples_of(result, "faulting_p50"), base = samples_of(result, "present_p50");
    ASSERT_FALSE(p50.empty());
    for (std::size_t i = 0; i < p50.size(); ++i) {
      EXPECT_NEAR(p50[i], raw[i] - base[i], 1e-15);
      EXPECT_LE(p50[i], p95[i]);
      EXPECT_LE(p95[i], p99[i]);
    }
    // A real page fault takes longer than an access.
    EXPECT_GT(harness::median(raw), harness::median(base));
  }
}

TEST(CpuFaults, OfHugePagesAreSkippedWhereTheKernelGivesNone) {
  if (!kOwnFaultsOnly) GTEST_SKIP() << kOthers;
  for (const char* name : {"fault/cpu/anonymous", "fault/cpu/shared"}) {
    for (const auto& result : run_cases(name, {}, {}, {"at_once=2", "threads=1", "pages=huge"}, {}, 2)) {
      if (result.skipped) {
        EXPECT_NE(result.skipped->find("huge pages"), std::string::npos) << *result.skipped;
      } else {
        EXPECT_EQ(complaint(result), "") << name;
      }
    }
  }
}

TEST(CpuFaults, ThatCannotBeAreSkippedWithTheReason) {
  expect_skip("fault/cpu/anonymous", {"at_once=2", "threads=3", "pages=small"}, "3 threads cannot share 2 pages");
  expect_skip("fault/cpu/mapped", {"at_once=2", "threads=1", "node=77"}, "NUMA node 77");
  const std::string before = getenv("TMPDIR") == nullptr ? "" : getenv("TMPDIR");
  setenv("TMPDIR", "/dev/shm", 1);
  expect_skip("fault/cpu/file-major", {"at_once=2", "threads=1"}, "in memory");
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
}

TEST(CpuFaults, AreRealMeasurementsWithoutADevice) {
  for (const auto* workload : harness::find_workloads("fault/cpu/*"))
    EXPECT_TRUE(workload->description().cpu_only) << workload->name();
}

TEST(FaultingRegion, FaultsOncePerTouchAfterEachRenewal) {
  if (!kOwnFaultsOnly) GTEST_SKIP() << kOthers;
  FaultingRegion region(Event::anonymous, 37, memory::Pages::small);
  PageWorkers workers(Event::anonymous, 1, -1);
  workers.touch(region);  // the first time, pages of the program itself fault as well
  for (int round = 0; round < 3; ++round) {
    region.renew();
    EXPECT_EQ(region.present().value_or(0), 0u);
    const auto pass = workers.touch(region);
    EXPECT_GE(pass.faults.minor, 37);
    EXPECT_LE(pass.faults.minor, 37 + allowance(37));
    EXPECT_EQ(pass.faults.major, 0);
    EXPECT_EQ(region.present().value_or(37), 37u);
    EXPECT_LE(workers.touch(region).faults.minor, allowance(0));
    EXPECT_GT(pass.seconds, 0);
  }
}

// The following tests repeat mistakes of other benchmarks, which touched one page in four, used a fixed number of
// threads, and did not check the timed touches.

TEST(Account, SeesPagesThatWereNotTouched) {
  if (!kOwnFaultsOnly) GTEST_SKIP() << kOthers;
  FaultingRegion region(Event::anonymous, 64, memory::Pages::small);
  PageWorkers workers(Event::anonymous, 1, -1);
  Account account(Event::anonymous);
  region.renew();
  account.before(region);
  Pass quarter;
  const auto before = memory::thread_page_faults();
  for (std::size_t i = 0; i < 64; ++i)  // uses the stride in floats instead of bytes
    *reinterpret_cast<volatile std::uint64_t*>(region.data() + i * (region.stride() / 4)) = region.word(i);
  quarter.faults = memory::thread_page_faults() - before;
  EXPECT_LE(quarter.faults.minor, 16 + allowance(0));
  account.after(region, quarter);
  EXPECT_GT(account.wrong(), 0u);
  EXPECT_NE(account.reason().find("64 touches made"), std::string::npos) << account.reason();
}

TEST(Account, SeesPagesThatWereThereBeforeAndWordsThatWereNotWritten) {
  FaultingRegion region(Event::anonymous, 8, memory::Pages::small);
  PageWorkers workers(Event::anonymous, 1, -1);
  Account warm(Event::anonymous);
  region.renew();
  const auto cold = workers.touch(region);
  warm.before(region);
  EXPECT_EQ(warm.wrong(), memory::present_pages(region.data(), 1) ? 1u : 0u);

  Account fine(Event::anonymous);
  fine.after(region, cold);
  EXPECT_EQ(fine.wrong(), 0u) << fine.reason();

  Account lost(Event::anonymous);
  *reinterpret_cast<std::uint64_t*>(region.data() + 5 * region.stride()) ^= 1;
  lost.after(region, cold);
  EXPECT_EQ(lost.wrong(), 1u);
  EXPECT_NE(lost.reason().find("1 of 8 pages"), std::string::npos) << lost.reason();

  Account faulting(Event::anonymous);
  Pass pass;
  pass.faults.minor = 100;
  faulting.present(pass);
  EXPECT_EQ(faulting.wrong(), 1u);
}

TEST(Account, ToleratesFewFaultsOfOtherPagesAndSaysSo) {
  FaultingRegion region(Event::zero_page, 16, memory::Pages::small);
  PageWorkers workers(Event::zero_page, 1, -1);
  Account account(Event::zero_page);
  region.renew();
  auto pass = workers.touch(region);
  pass.faults = {17, 0};
  account.after(region, pass);
  EXPECT_EQ(account.wrong(), 0u) << account.reason();
  EXPECT_TRUE(account.disturbed());
  EXPECT_FALSE(account.disturbed());
  pass.faults = {15, 1};
  account.after(region, pass);
  EXPECT_EQ(account.wrong(), 0u) << account.reason();
  EXPECT_TRUE(account.disturbed());
  pass.faults = {15, 0};
  account.after(region, pass);
  EXPECT_EQ(account.wrong(), 1u);
  pass.faults = {0, 16};
  account.after(region, pass);
  EXPECT_EQ(account.wrong(), 2u);
}

TEST(Threads, AreThoseOfTheMachine) {
  const auto numbers = [](unsigned all) {
    std::vector<std::int64_t> list;
    for (const auto& value : default_threads(all)) list.push_back(std::get<std::int64_t>(value));
    return list;
  };
  EXPECT_EQ(numbers(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(numbers(2), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(numbers(3), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(numbers(24), (std::vector<std::int64_t>{1, 12, 24}));
  // Processors that this process must not use do not count.
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &before)) continue;
    CPU_SET(i, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(threads_axis("").default_sweep, default_threads(1));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(threads_axis("").default_sweep, default_threads(static_cast<unsigned>(CPU_COUNT(&before))));
}

TEST(Percentiles, AreTheSmallestValueThatSoManyDoNotExceed) {
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  const std::vector<double> net{45, 90, 94}, faulting{50, 95, 99}, present{5, 5, 5};
  auto expected = net;
  expected.insert(expected.end(), faulting.begin(), faulting.end());
  expected.insert(expected.end(), present.begin(), present.end());
  EXPECT_EQ(percentiles(hundred, {5}), expected);
  EXPECT_EQ(percentile_names(),
            (std::vector<std::string>{"p50", "p95", "p99", "faulting_p50", "faulting_p95", "faulting_p99",
                                      "present_p50", "present_p95", "present_p99"}));
}

// --- GPU ---------------------------------------------------------------------------------------------

class GpuFaults : public device::OnEmulatedMachine {};

TEST_P(GpuFaults, TouchEveryPageOnce) {
  const bool shares = device::info(0).integrated;
  for (int gpu = 0; gpu < device::count(); ++gpu) {
    for (const char* event : {"major", "minor", "migration", "prefaulted-minor", "prefaulted-migration"}) {
      const auto name = "fault/gpu" + std::to_string(gpu) + "/" + event;
      const bool of_the_other = std::string(event).find(shares ? "migration" : "minor") != std::string::npos;
      for (const auto& result : run_cases(name, {}, {}, {"at_once=1,300", "memory=managed,pageable", "singles=4"})) {
        if (of_the_other) {  // this event cannot occur on this machine and must not be measured as the other event
          ASSERT_TRUE(result.skipped) << result.spec.label();
          EXPECT_EQ(result.skip_kind, harness::SkipKind::not_applicable) << *result.skipped;
          EXPECT_NE(result.skipped->find(shares ? "minor" : "migration"), std::string::npos) << *result.skipped;
          continue;
        }
        if (!shares && event != std::string("major") && result.spec.choice("memory") == "pageable") {
          // The emulator's kernels access malloc'd pages in host memory, which the case must detect.
          ASSERT_TRUE(result.skipped) << result.spec.label();
          EXPECT_NE(result.skipped->find("none migrated"), std::string::npos) << *result.skipped;
          continue;
        }
        EXPECT_EQ(complaint(result), "") << result.spec.label();
        for (const char* metric : {"time", "time_faulting", "time_present", "p50", "p95", "p99", "present_p50"})
          EXPECT_NE(result.find(metric), nullptr) << metric;
        EXPECT_EQ(result.find("time_prefault") != nullptr, std::string(event).starts_with("prefaulted"));
      }
    }
  }
}

TEST_P(GpuFaults, TakeEveryGeometryOfPages) {
  for (const auto& result :
       run_cases("fault/gpu0/major", {}, {},
                 {"at_once=5,257", "memory=pageable", "apart=0,64KiB", "pages=small,huge", "singles=3"})) {
    // Touches 64 KiB apart do not apply to huge pages.
    if (result.skipped && result.skip_kind == harness::SkipKind::not_applicable) continue;
    EXPECT_EQ(complaint(result), "") << result.spec.label();
  }
}

INSTANTIATE_TEST_SUITE_P(Emulators, GpuFaults,
                         testing::Values("pageable_access=1", "devices=2,warp=64,order=reverse,pageable_access=1",
                                         "integrated=1,pageable_access=1",
                                         "integrated=1,devices=2,warp=64,pageable_access=1"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(GpuFault, WithoutSupportIsSkippedWithTheReason) {
  struct Lack {
    const char *machine, *memory, *reason;
  };
  for (const auto& [machine, memory, reason] : {Lack{"managed=0", "memory=managed", "no managed memory"},
                                                Lack{"concurrent_managed=0", "memory=managed", "at the same time"},
                                                Lack{"pageable_access=0", "memory=pageable", "pageable memory"}}) {
    emulator::configure(emulator::parse(machine));
    expect_skip("fault/gpu0/major", {"at_once=4", memory}, reason);
  }
  emulator::configure(emulator::parse("pageable_access=1"));
  expect_skip("fault/gpu7/major", {"at_once=4", "memory=managed"}, "gpu7 does not exist");
  expect_skip("fault/gpu0/major", {"at_once=4", "memory=managed", "pages=huge"}, "runtime chooses");
  expect_skip("fault/gpu0/major", {"at_once=4", "memory=pageable", "apart=1000"}, "not a multiple");
  expect_skip("fault/gpu0/major", {"at_once=4", "memory=pageable", "node=77"}, "NUMA node 77");
  emulator::configure({});
  emulator::reset();
}

TEST(GpuFault, ThatFailsIsAnErrorOfItsCaseAndLeavesNothingBehind) {
  for (const char* call : {"malloc_managed:1", "malloc_managed:2:oom", "launch:1", "launch:2", "event_record:1"}) {
    device::set_injection(call);
    const auto results = run_cases("fault/gpu0/major", {}, {}, {"at_once=4", "memory=managed", "singles=2"});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error || results[0].skipped) << call;
    device::set_injection("");
  }
  EXPECT_EQ(complaint(run_cases("fault/gpu0/major", {}, {}, {"at_once=4", "memory=managed", "singles=2"})[0]), "");
}

}  // namespace
}  // namespace isthmus::microbench::fault_cost
