// Tests of every method of moving bytes, on emulated machines with one and with several GPUs.

#include <algorithm>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/plan/registry.hpp"
#include "harness/plan/workloads.hpp"
#include "microbench/transfer/block.hpp"
#include "microbench/transfer/ends.hpp"
#include "microbench/transfer/kernels.hpp"
#include "microbench/transfer/limits.hpp"

namespace isthmus::microbench::transfer {
namespace {

class Transfers : public device::OnEmulatedMachine {
 protected:
  static void expect_pass(const std::string& pattern, const std::vector<std::string>& settings, std::size_t least = 1) {
    const auto results = run_cases(pattern, {}, {}, settings);
    EXPECT_GE(results.size(), least);
    for (const auto& result : results) {
      EXPECT_EQ(complaint(result), "") << result.spec.label();
      for (const auto& metric : result.metrics) {
        ASSERT_FALSE(metric.samples.empty()) << result.spec.label() << " " << metric.name;
        EXPECT_GT(metric.samples.front(), 0) << result.spec.label() << " " << metric.name;
      }
    }
  }
};

std::vector<std::string> names(const std::vector<Path>& list) {
  std::vector<std::string> all;
  for (const auto& path : list) all.push_back("transfer/" + path.name());
  return all;
}

bool has_axis(const std::string& workload, std::string_view axis) {
  const auto& axes = harness::find_workloads(workload).at(0)->description().axes;
  return std::any_of(axes.begin(), axes.end(), [&](const auto& each) { return each.name == axis; });
}

TEST_P(Transfers, MoveEveryByteEveryWay) {
  for (const auto& name : names(paths({device::count(), {0}}))) {
    std::vector<std::string> settings{"bytes=64KiB"};
    // ThreadSanitizer supports at most 8128 fibers, and all-to-all runs a kernel for each pair of GPUs at once.
    if (device::count() > 2 && has_axis(name, "block")) settings.emplace_back("block=256");
    expect_pass(name, settings);
  }
}

TEST_P(Transfers, HaveLatenciesBetweenAllEnds) {
  for (const auto& name : names(latency_paths({device::count(), {0}}))) {
    if (name.ends_with("chase")) expect_pass(name, {"bytes=16KiB", "hops=1001"});
    if (name.ends_with("fault-latency")) expect_pass(name, {"faults=5", "apart=64KiB"});
    if (name.ends_with("small-copy")) expect_pass(name, {"bytes=4,1000"}, 2);
  }
}

TEST_P(Transfers, TakeEveryOrderWidthAndGeometry) {
  expect_pass("transfer/mapped-gpu0/sm-read", {"bytes=24KiB", "order=all", "stride=192", "width=all"}, 9);
  expect_pass("transfer/gpu0-mapped/sm-write", {"bytes=4096", "grid=1,3", "block=32,1024"}, 4);
  expect_pass("transfer/gpu0-gpu0/sm-read", {"bytes=16,4112"}, 2);
  expect_pass("transfer/pinned-gpu0/ce-strided", {"bytes=96KiB", "row=8,96,512", "planes=1,4"}, 6);
  expect_pass("transfer/gpu0-pinned/pack", {"bytes=96KiB", "row=16,512", "planes=1,4"}, 4);
  expect_pass("transfer/pinned-gpu0/pack", {"bytes=96KiB", "row=16,512", "planes=1,4"}, 4);
  expect_pass("transfer/gpu0-pinned/ce-batch", {"bytes=64KiB", "pieces=1,2,128"}, 3);
  expect_pass("transfer/managed-gpu0/ce", {"bytes=1,1000,4KiB"}, 3);  // copies do not migrate, so partial pages work
  expect_pass("transfer/managed-managed/runtime", {"bytes=1,1000,4KiB"}, 3);
  expect_pass("transfer/managed-gpu0/prefetch-batch", {"bytes=96KiB", "pieces=1,7,1000"}, 3);
}

TEST_P(Transfers, TouchPagesEveryWay) {
  expect_pass("transfer/managed-gpu0/fault", {"bytes=100KiB", "touch=all", "grid=0,1", "block=96"}, 6);
  expect_pass("transfer/gpu0-managed/fault", {"bytes=100KiB", "touch=all", "threads=1,3"}, 6);
}

TEST_P(Transfers, RunAtOnce) {
  expect_pass("transfer/pinned-gpu0/ce-duplex", {"bytes=64KiB", "at_once=1,3"}, 2);
  const auto results = run_cases("transfer/pinned-gpu0/ce-duplex", {}, {}, {"bytes=64KiB"});
  ASSERT_EQ(results.size(), 1u);
  for (const char* metric : {"first_time", "time", "rate", "forward_rate", "backward_rate"})
    EXPECT_NE(results[0].find(metric), nullptr) << metric;
}

TEST_P(Transfers, CountWhatIsAskedForApartFromWhatMoves) {
  const auto results = run_cases("transfer/managed-gpu0/fault", {}, {}, {"bytes=64KiB", "touch=write"});
  ASSERT_EQ(results.size(), 1u);
  const auto* rate = results[0].find("rate");
  ASSERT_NE(rate, nullptr);
  EXPECT_EQ(rate->bytes_needed, 16.0);
  EXPECT_EQ(rate->bytes_moved, 65536.0);
}

TEST_P(Transfers, ThatMeanNothingAreSkippedWithTheReason) {
  const auto expect_skip = [](const std::string& name, const std::vector<std::string>& settings,
                              const std::string& reason) {
    const auto results = run_cases(name, {}, {}, settings);
    ASSERT_EQ(results.size(), 1u);
    ASSERT_TRUE(results[0].skipped) << name;
    EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
  };
  expect_skip("transfer/managed-gpu0/prefetch", {"bytes=1000"}, "not a multiple");
  expect_skip("transfer/mapped-gpu0/sm-read", {"bytes=1000"}, "access width");
  expect_skip("transfer/mapped-gpu0/sm-read", {"bytes=1024", "order=strided", "stride=24"}, "stride");
  expect_skip("transfer/pinned-gpu0/ce-strided", {"bytes=1000"}, "rows");
  expect_skip("transfer/pinned-gpu0/ce-batch", {"bytes=1000"}, "pieces");
  expect_skip("transfer/pinned-gpu9/ce", {"bytes=4096"}, "gpu9 does not exist");
  expect_skip("transfer/gpu0-gpu9/ce", {"bytes=4096"}, "gpu9 does not exist");
  expect_skip("transfer/node0-node9/cpu", {"bytes=4096"}, "NUMA node 9");
  expect_skip("transfer/pinned-gpu0/ce", {"bytes=4096", "node=77"}, "NUMA node 77");
  expect_skip("transfer/gpu0-gpu0/chase", {"bytes=100"}, "chain");
}

INSTANTIATE_TEST_SUITE_P(Emulators, Transfers,
                         testing::Values("pageable_access=1", "warp=64,order=reverse,devices=2,pageable_access=1",
                                         "devices=3,pageable_access=1"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(Transfer, WithoutSupportIsSkippedWithTheReason) {
  struct Lack {
    const char *machine, *name, *reason;
  };
  for (const auto& [machine, name, reason] :
       {Lack{"devices=2,peer=0", "transfer/gpu0-gpu1/ce", "no peer access"},
        Lack{"devices=2,peer=0", "transfer/all-all/ce", "no peer access"},
        Lack{"devices=1", "transfer/all-all/ce", "several GPUs"},
        Lack{"managed=0", "transfer/managed-gpu0/fault", "no managed memory"},
        Lack{"managed=0", "transfer/managed-gpu0/ce", "no managed memory"},
        Lack{"managed=0", "transfer/pinned-managed/runtime", "no managed memory"},
        Lack{"concurrent_managed=0", "transfer/managed-gpu0/prefetch", "at the same time"},
        Lack{"pageable_access=0", "transfer/pageable-gpu0/fault", "pageable memory"},
        Lack{"map_host=0", "transfer/mapped-gpu0/sm-read", "mapped host memory"}}) {
    emulator::configure(emulator::parse(machine));
    const auto results = run_cases(name, {}, {}, {"bytes=64KiB"});
    ASSERT_EQ(results.size(), 1u) << name;
    ASSERT_TRUE(results[0].skipped) << name << ": " << complaint(results[0]);
    EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
    EXPECT_EQ(results[0].skip_kind, harness::SkipKind::unsupported);
  }
  emulator::configure(emulator::parse("devices=2,peer=0"));
  for (const auto& result : run_cases("transfer/gpu0-gpu1/ce-nopeer*", {}, {}, {"bytes=64KiB"}))
    EXPECT_EQ(complaint(result), "");
  emulator::configure({});
  emulator::reset();
}

TEST(Transfer, ThatFailsIsAnErrorOfItsCaseAndLeavesNothingBehind) {
  const auto before = device::memory_info().free;
  for (const char* call : {"malloc_device:1", "malloc_pinned:1:oom", "copy_async:1", "event_record:1"}) {
    device::set_injection(call);
    const auto results = run_cases("transfer/pinned-gpu0/ce", {}, {}, {"bytes=64KiB"});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error || results[0].skipped) << call;
    device::set_injection("");
    EXPECT_EQ(device::memory_info().free, before) << call;
  }
  EXPECT_EQ(complaint(run_cases("transfer/pinned-gpu0/ce", {}, {}, {"bytes=64KiB"})[0]), "");
}

TEST(Blocks, SeeOneWrongByte) {
  const Pattern pattern{7, 1};
  for (const End end : {End{Kind::pageable}, End{Kind::write_combined}, gpu(0)}) {
    Block block(end, 1003, {});
    block.poison();
    EXPECT_GT(block.wrong(pattern), 900u) << end.name();
    block.fill(pattern);
    EXPECT_EQ(block.wrong(pattern), 0u) << end.name();
    const std::uint8_t broken = 0x11;
    std::uint8_t whole = 0;
    device::copy(&whole, block.data() + 1002, 1);
    device::copy(block.data() + 1002, &broken, 1);
    EXPECT_EQ(block.wrong(pattern), whole == broken ? 0u : 1u) << end.name();
  }
}

TEST(Limits, OfTransfersAtOnceAreThoseOfTheEndsTheyShare) {
  const End host{Kind::pinned};
  EXPECT_DOUBLE_EQ(combined_rate({{host, gpu(0), 63}}), 63);
  EXPECT_DOUBLE_EQ(combined_rate({{host, gpu(0), 63}, {gpu(0), host, 63}}), 126);        // both directions of a link
  EXPECT_DOUBLE_EQ(combined_rate({{host, gpu(0), 63}, {host, gpu(0), 63}}), 63);         // the same direction twice
  EXPECT_DOUBLE_EQ(combined_rate({{host, gpu(0), 63}, {host, gpu(1), 32}}), 95);         // separate links
  EXPECT_DOUBLE_EQ(combined_rate({{gpu(0), gpu(1), 450}, {gpu(0), gpu(2), 450}}), 450);  // one GPU to all others
  EXPECT_DOUBLE_EQ(combined_rate({{gpu(1), gpu(0), 450}, {gpu(2), gpu(0), 450}}), 450);  // all other GPUs to one
  std::vector<Flow> all;
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from != to) all.push_back({gpu(from), gpu(to), 450});
    }
  }
  EXPECT_DOUBLE_EQ(combined_rate(all), 4 * 450);
}

TEST(Names, AreUniqueAndSayBothEnds) {
  const harness::Machine machine{4, {0, 1}};
  auto all = names(paths(machine));
  for (auto& name : names(latency_paths(machine))) all.push_back(std::move(name));
  const std::size_t count = all.size();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin()), count);
  for (const char* expected :
       {"transfer/pinned-gpu0/ce", "transfer/gpu3-gpu1/sm-read", "transfer/node0-node1/cpu", "transfer/all-all/ce",
        "transfer/gpu0-gpu1/ce-nopeer-duplex", "transfer/gpu2-all/sm-write", "transfer/managed-gpu3/prefetch-duplex"})
    EXPECT_TRUE(std::binary_search(all.begin(), all.end(), expected)) << expected;
}

}  // namespace
}  // namespace isthmus::microbench::transfer
