// Tests of accounting/*: the counters, that a GPU is not treated as a NUMA node, and that memory reported as touched
// has been touched.

#include <algorithm>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/plan/registry.hpp"
#include "memory/block.hpp"
#include "memory/pages.hpp"
#include "microbench/accounting/counters.hpp"
#include "microbench/accounting/touch.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench::accounting {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;

std::optional<double> of(const Reading& reading, std::string_view name) {
  const auto all = counters();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& counter) { return counter.name == name; });
  EXPECT_NE(found, all.end()) << name;
  return reading.at(static_cast<std::size_t>(found - all.begin()));
}

double median(const harness::CaseResult& result, const std::string& metric) {
  const auto* series = result.find(metric);
  if (series == nullptr || series->samples.empty()) {
    ADD_FAILURE() << result.spec.label() << " has no " << metric << " " << complaint(result);
    return -1;
  }
  auto samples = series->samples;
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

TEST(Counters, OfADeviceAreNotThoseOfANode) {
  const auto with_device = read_all({.node = -1, .device = 0});
  EXPECT_TRUE(of(with_device, "device_free"));
  EXPECT_FALSE(of(with_device, "node_free")) << "device 0 was taken for node 0";
  const auto with_node = read_all({.node = 0, .device = -1});
  EXPECT_FALSE(of(with_node, "device_free"));
  EXPECT_FALSE(of(with_node, "driver_used"));
  const auto elsewhere = read_all({.node = 100000, .device = -1});
  EXPECT_FALSE(of(elsewhere, "node_free"));
}

TEST(Counters, GrowWithWhatIsUsedWhicheverWayTheyCount) {
  const std::size_t bytes = 64 * kMi;
  const auto before = read_all({.device = 0});
  void* memory = device::malloc_device(bytes);
  const auto grown = growth(before, read_all({.device = 0}));
  device::free_device(memory);
  EXPECT_EQ(of(grown, "device_free"), static_cast<double>(bytes));  // growth is positive although free memory shrinks
  const auto unknown = growth({std::nullopt, 1.0}, {2.0, std::nullopt});
  EXPECT_FALSE(unknown[0] || unknown[1]);
}

TEST(Counters, HaveNamesOfTheirOwn) {
  std::vector<std::string_view> names;
  for (const auto& counter : counters()) names.push_back(counter.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Touching, IsMissedWhereOnePageIs) {
  const std::size_t page = memory::page_bytes(), bytes = 257 * page;
  memory::Block host(Kind::pageable, bytes);
  touch_on_cpu(host.data(), bytes, page);
  EXPECT_EQ(wrong_pages(host.data(), bytes, page, true), 0u);
  host.data()[100 * page] ^= std::byte{1};
  EXPECT_EQ(wrong_pages(host.data(), bytes, page, true), 1u);
  touch_on_cpu(host.data(), bytes - page, page);
  EXPECT_EQ(wrong_pages(host.data(), bytes, page, true), 0u);  // the last page is still right from the earlier touch
  *reinterpret_cast<std::uint64_t*>(host.data() + bytes - page) = 0;
  touch_on_cpu(host.data(), bytes - page, page);
  EXPECT_EQ(wrong_pages(host.data(), bytes, page, true), 1u);

  const std::size_t many = 4097 * page + page;  // enough pages to be copied to the host in several pieces
  const memory::Block there(Kind::device, many);
  device::Stream stream;
  queue_touch_on_gpu(stream, there.data(), many - page, page);
  stream.synchronize();
  EXPECT_EQ(wrong_pages(there.data(), many - page, page, false), 0u);
  EXPECT_EQ(wrong_pages(there.data(), many, page, false), 1u);
}

class Accounting : public device::OnEmulatedMachine {};

TEST_P(Accounting, CountsEveryWayByAllWorkers) {
  std::size_t measured = 0;
  for (const auto* workload : harness::find_workloads("accounting/*")) {
    for (const auto& result : run_cases(workload->name(), {}, {}, {"bytes=4MiB"})) {
      if (result.skipped) continue;
      EXPECT_EQ(complaint(result), "") << result.spec.label();
      ++measured;
      const auto& name = workload->name();
      if (name.ends_with("/cpu")) {
        EXPECT_EQ(result.find("device_free_touched"), nullptr) << "a CPU-only case asked a device";
      } else {
        const bool device_memory =
            name.find("/device/") != std::string::npos || name.find("/pool/") != std::string::npos;
        EXPECT_DOUBLE_EQ(median(result, "device_free_allocated"), device_memory ? 1 : 0) << result.spec.label();
      }
      if (name.find("/registered/") != std::string::npos) {
        // Memory is touched before it is page-locked. The share may be below 1, because a sanitizer's malloc keeps
        // freed memory in the same mapping.
        EXPECT_GT(median(result, "mapping_rss_allocated"), 0.99);
      }
    }
  }
  EXPECT_GT(measured, 12u);
}

INSTANTIATE_TEST_SUITE_P(Emulators, Accounting,
                         testing::Values("pageable_access=1",
                                         "warp=64,order=reverse,devices=2,pageable_access=1,integrated=1"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(Account, OfThisProcessSeesMallocWhenItIsTouched) {
  for (const char* pages : {"small", "huge"}) {
    const auto results = run_cases("accounting/pageable/cpu", {}, {}, {"bytes=64MiB", std::string("pages=") + pages});
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(complaint(results[0]), "");
    EXPECT_EQ(results[0].find("latency"), nullptr);
    EXPECT_NEAR(median(results[0], "mapping_rss_allocated"), 0, 0.01) << pages;
    EXPECT_NEAR(median(results[0], "mapping_rss_touched"), 1, 0.01) << pages;
    EXPECT_GT(median(results[0], "rollup_rss_touched"), 0.9) << pages;  // tolerates the pages of a sanitizer
    EXPECT_NEAR(median(results[0], "rollup_rss_allocated"), 0, 0.1) << pages;
  }
  EXPECT_FALSE(harness::is_emulated(*harness::find_workloads("accounting/pageable/cpu").at(0)));
}

TEST(Account, ThatMeansNothingIsSkippedWithTheReason) {
  struct Refused {
    const char *machine, *name;
    std::vector<std::string> settings;
    const char* reason;
  };
  for (const auto& [machine, name, settings, reason] :
       {Refused{"devices=1", "accounting/pageable/cpu", {"bytes=1048577"}, "not a multiple"},
        Refused{"devices=1", "accounting/pageable/cpu", {"node=77"}, "NUMA node 77"},
        Refused{"devices=1", "accounting/device/gpu9", {}, "gpu9 does not exist"},
        Refused{"devices=1", "accounting/device/gpu0", {"touch=cpu"}, "does not share its memory"},
        Refused{"managed=0", "accounting/managed/gpu0", {"touch=cpu"}, "no managed memory"},
        Refused{"memory_pools=0", "accounting/pool/gpu0", {}, "stream-ordered"},
        Refused{"pageable_access=0", "accounting/pageable/gpu0", {"touch=gpu"}, "pageable memory"}}) {
    emulator::configure(emulator::parse(machine));
    const auto results = run_cases(name, {}, {}, settings);
    ASSERT_EQ(results.size(), 1u) << name;
    ASSERT_TRUE(results[0].skipped) << name << ": " << complaint(results[0]);
    EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
  }
  emulator::configure({});
  emulator::reset();
}

TEST(Account, ThatFailsIsAnErrorOfItsCaseAndLeavesNothingBehind) {
  const auto before = device::memory_info().free;
  for (const char* call : {"malloc_device:1:oom", "memory_info:2", "launch:1"}) {
    device::set_injection(call);
    const auto results = run_cases("accounting/device/gpu0", {}, {}, {"bytes=4MiB"});
    device::set_injection("");
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error || results[0].skipped) << call;
    EXPECT_EQ(device::memory_info().free, before) << call;
  }
}

}  // namespace
}  // namespace isthmus::microbench::accounting
