// Tests of stream/* on emulated machines with one and two GPUs, and on this machine's CPU.

#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/plan/registry.hpp"
#include "memory/pages.hpp"
#include "memory/processors.hpp"
#include "microbench/axes.hpp"
#include "microbench/stream/checks.hpp"
#include "microbench/stream/device_kernels.hpp"
#include "microbench/stream/host_team.hpp"

namespace isthmus::microbench::stream {
namespace {

const harness::Series& metric_of(const harness::CaseResult& result, const char* name) {
  const auto* found = result.find(name);
  if (found == nullptr) throw std::logic_error(std::string(name) + " is missing: " + complaint(result));
  return *found;
}

void expect_pass(const std::string& pattern, const std::vector<std::string>& settings, std::size_t cases) {
  const auto results = run_cases(pattern, {}, {}, settings);
  EXPECT_EQ(results.size(), cases) << pattern;
  for (const auto& result : results) {
    EXPECT_EQ(complaint(result), "") << result.spec.label();
    for (const char* name : {"time", "rate"}) EXPECT_GT(metric_of(result, name).samples.front(), 0);
  }
}

void expect_skip(const std::string& pattern, const std::vector<std::string>& settings, const std::string& reason) {
  const auto results = run_cases(pattern, {}, {}, settings);
  ASSERT_EQ(results.size(), 1u) << pattern;
  ASSERT_TRUE(results[0].skipped) << pattern << " " << complaint(results[0]);
  EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
}

class Streams : public device::OnEmulatedMachine {};

TEST_P(Streams, OfEveryGpuWorkInEveryWayOfAllocating) {
  const auto kinds = axis_kinds().size() - 1;  // all except `pinned`
  for (int gpu = 0; gpu < device::count(); ++gpu) {
    const std::string name = "stream/gpu" + std::to_string(gpu) + "/";
    for (const auto& each : kOperations)
      expect_pass(name + std::string(each.name), {"bytes=8KiB", "memory=all"}, kinds);
  }
}

TEST_P(Streams, WorkWithAnyShapeAndSize) {
  // A work item has 64 bytes. With 41 work items (2624 bytes), some threads have no work.
  for (const auto& each : kOperations)
    expect_pass("stream/gpu0/" + std::string(each.name),
                {"bytes=64,2624", "memory=device", "grid=0,1,3", "block=32,100,1024"}, 18);
}

TEST_P(Streams, OfTheCpuWorkOnMemoryOfAGpu) {
  for (const auto& each : kOperations) {
    for (const char* first : {"first_touch=cpu", "first_touch=gpu"})
      expect_pass("stream/gpu0/cpu-" + std::string(each.name),
                  {"bytes=8KiB", "memory=managed,mapped,registered,pageable", first}, 4);
  }
}

TEST_P(Streams, WorkWhoeverTouchesFirst) {
  expect_pass("stream/gpu0/triad",
              {"bytes=8KiB", "memory=managed,mapped,registered,write_combined,pageable", "first_touch=cpu"}, 5);
  expect_skip("stream/gpu0/triad", {"bytes=8KiB", "memory=device", "first_touch=cpu"}, "the CPU cannot touch device");
}

INSTANTIATE_TEST_SUITE_P(Emulators, Streams,
                         testing::Values("pageable_access=1", "warp=64,order=reverse,devices=2,pageable_access=1",
                                         "warp=32,order=seed:3,pageable_access=1"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(Stream, OfMemoryThatBothShareIsReachedByTheCpu) {
  emulator::configure(emulator::parse("integrated=1"));
  expect_pass("stream/gpu0/cpu-triad", {"bytes=8KiB", "memory=device", "first_touch=cpu,gpu"}, 2);
  expect_pass("stream/gpu0/triad", {"bytes=8KiB", "memory=device", "first_touch=cpu"}, 1);
  emulator::configure({});
  emulator::reset();
}

TEST(Stream, CountsThePageFaultsOfTheCpu) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the process's page faults are those of ThreadSanitizer's shadow, too";
#endif
  constexpr double kPages = 3 * (std::size_t{16} << 20) / 4096.0;
  if (memory::page_bytes() != 4096) GTEST_SKIP() << "pages are not of 4096 bytes";
  const auto results =
      run_cases("stream/cpu/triad", {}, {}, {"bytes=16MiB", "pages=small,huge", "threads=2", "stores=standard"}, {}, 3);
  ASSERT_EQ(results.size(), 2u);
  const auto& small = results[0];
  ASSERT_EQ(complaint(small), "");
  const auto count = [&](const char* name) { return metric_of(small, name).samples.at(0); };
  EXPECT_GE(count("init_page_faults"), kPages);
  EXPECT_LT(count("init_page_faults"), 1.5 * kPages);
  EXPECT_LT(count("first_pass_page_faults"), kPages / 10) << "the pages are there";
  EXPECT_LT(count("page_faults_per_pass"), kPages / 10);
  if (complaint(results[1]).empty() && results[1].warnings.empty()) {
    // A huge page causes only one page fault. How many huge pages the kernel provides depends on how fragmented its
    // memory is.
    EXPECT_LT(metric_of(results[1], "init_page_faults").samples.at(0), kPages);
  }
}

TEST(Stream, WithoutSupportIsSkippedWithTheReason) {
  struct Lack {
    const char *machine, *kind, *reason;
  };
  for (const auto& [machine, kind, reason] :
       {Lack{"managed=0", "managed", "no managed memory"}, Lack{"map_host=0", "mapped", "map host memory"},
        Lack{"memory_pools=0", "pool", "stream-ordered"}, Lack{"pageable_access=0", "pageable", "pageable memory"}}) {
    emulator::configure(emulator::parse(machine));
    expect_skip("stream/gpu0/copy", {"bytes=8KiB", std::string("memory=") + kind}, reason);
  }
  emulator::configure({});
  emulator::reset();
  expect_skip("stream/gpu9/copy", {"bytes=8KiB", "memory=device"}, "gpu9 does not exist");
  expect_skip("stream/gpu0/cpu-copy", {"bytes=8KiB", "memory=device"}, "does not share its memory with the CPU");
  expect_skip("stream/cpu/triad", {"bytes=8KiB", "stores=standard", "threads=1", "node=77"}, "NUMA node 77");
  expect_skip("stream/cpu/triad", {"bytes=8KiB", "stores=standard", "threads=1", "cores=77"}, "NUMA node 77");
  expect_skip("stream/cpu/triad", {"bytes=100", "stores=standard", "threads=1"}, "not a multiple");
  expect_skip("stream/cpu/triad", {"bytes=8KiB", "stores=standard", "threads=100000"}, "as many processors");
}

TEST(Stream, ThatFailsIsAnErrorOfItsCaseAndLeavesNothingBehind) {
  const auto before = device::memory_info().free;
  for (const char* call : {"malloc_device:2", "malloc_managed:1:oom", "event_record:1"}) {
    const std::string injected = call;
    device::set_injection(call);
    const std::string memory = injected.starts_with("malloc_managed") ? "memory=managed" : "memory=device";
    const auto results = run_cases("stream/gpu0/triad", {}, {}, {"bytes=8KiB", memory});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error || results[0].skipped) << call;
    device::set_injection("");
    EXPECT_EQ(device::memory_info().free, before) << call;
  }
}

TEST(CpuStream, IsATrueMeasurement) {
  for (const auto& each : kOperations) {
    const auto results = run_cases("stream/cpu/" + std::string(each.name), {}, {}, {"bytes=1MiB", "threads=0"});
    ASSERT_EQ(results.size(), each.writes > 0 ? 2u : 1u) << each.name;
    for (const auto& result : results) {
      EXPECT_EQ(complaint(result), "") << result.spec.label();
      EXPECT_FALSE(harness::is_emulated(*result.spec.workload));
      EXPECT_GT(metric_of(result, "rate").samples.size(), 1u);
    }
  }
}

TEST(CpuStream, CountsAsStreamDoesAndWhatPassesTheMemoryApart) {
  const auto bytes = [](const char* operation, const char* stores) {
    const auto results = run_cases(std::string("stream/cpu/") + operation, {}, {},
                                   {"bytes=1MiB", "threads=1", std::string("stores=") + stores});
    const auto& rate = metric_of(results.at(0), "rate");
    return std::pair{rate.bytes_needed.value(), rate.bytes_moved.value()};
  };
  constexpr double kMi = 1 << 20;
  EXPECT_EQ(bytes("triad", "standard"), std::pair(3 * kMi, 4 * kMi));
  EXPECT_EQ(bytes("triad", "streaming"), std::pair(3 * kMi, 3 * kMi));
  EXPECT_EQ(bytes("copy", "standard"), std::pair(2 * kMi, 3 * kMi));
  EXPECT_EQ(bytes("write", "standard"), std::pair(1 * kMi, 2 * kMi));
  const auto read = run_cases("stream/cpu/read", {}, {}, {"bytes=1MiB", "threads=1"});
  EXPECT_EQ(metric_of(read.at(0), "rate").bytes_moved, kMi);
}

// Sizes do not depend on the machine's caches, so that the records of any two machines have a case in common.
TEST(CpuStream, TakesArraysOfTheSameSizeOnEveryMachine) {
  const auto sizes = [](std::optional<std::string> preset) {
    harness::RequestTexts request;
    request.patterns = {"stream/cpu/*"};
    request.preset = std::move(preset);
    std::set<std::int64_t> bytes;
    for (const auto& spec : harness::plan(harness::parse_request(request))) bytes.insert(spec.integer("bytes"));
    return bytes;
  };
  constexpr std::int64_t kMi = 1 << 20;
  EXPECT_EQ(sizes({}), std::set{4096 * kMi});
  const auto cache = static_cast<std::int64_t>(memory::processors().last_level_cache_bytes);
  EXPECT_EQ(sizes("cache-relative"), std::set{std::max(64 * kMi, (4 * cache + kMi - 1) / kMi * kMi)});
}

TEST(CpuStream, SaysHowItsArraysCompareWithTheCaches) {
  const auto results = run_cases("stream/cpu/read", {}, {}, {"bytes=1MiB", "threads=1"});
  ASSERT_EQ(results.size(), 1u);
  const auto& notes = results[0].notes;
  const auto note = notes.find("last_level_caches");
  ASSERT_NE(note, notes.end());
  const auto cache = memory::processors().last_level_cache_bytes;
  EXPECT_TRUE(note->second.starts_with(cache == 0 ? "unknown" : std::to_string(cache >> 20) + " MiB")) << note->second;
}

TEST(CpuStream, TimesWhatItsThreadsTakeTogether) {
  // The same clock must show that more repetitions take longer. If repetitions were left out, they would not.
  constexpr std::size_t kCount = std::size_t{1} << 20;
  std::vector<double> a(kCount), b(kCount), c(kCount);
  const Arrays arrays{a.data(), b.data(), c.data(), kCount};
  HostTeam team(memory::places(memory::processors().cores, 0, memory::Binding::close), -1);
  team.write_inputs(arrays, 1);
  // Interference from other work only adds time. Therefore the loop alternates between few and many repetitions and
  // keeps the shortest time of each, until the difference shows or 500 turns have passed.
  double seldom = 1e9, often = 1e9;
  for (int turn = 0; turn < 5 || (turn < 500 && often <= 3 * seldom); ++turn) {
    seldom = std::min(seldom, team.run(Operation::triad, Stores::standard, arrays, 2));
    often = std::min(often, team.run(Operation::triad, Stores::standard, arrays, 16));
  }
  EXPECT_GT(often, 3 * seldom);
}

TEST(Checks, SeeOneWrongElement) {
  constexpr std::size_t kCount = 4099;
  std::vector<double> out(kCount);
  for (const auto& each : kOperations) {
    if (each.writes == 0) continue;
    for (std::size_t i = 0; i < kCount; ++i) out[i] = expected(each.operation, 5, i);
    EXPECT_EQ(wrong_results(each.operation, 5, out.data(), kCount, Reach::host), 0u);
    EXPECT_EQ(wrong_results(each.operation, 5, out.data(), kCount, Reach::copies), 0u);
    EXPECT_EQ(wrong_results(each.operation, 5, out.data(), kCount, Reach::through_device), 0u);
    out[kCount - 1] += 1;
    out[0] = std::nan("");
    for (const auto reach : {Reach::host, Reach::copies, Reach::through_device})
      EXPECT_EQ(wrong_results(each.operation, 5, out.data(), kCount, reach), 2u) << each.name;
  }
  double sum = 0;
  for (std::size_t i = 0; i < kCount; ++i) sum += input(5, 0, i);
  EXPECT_EQ(expected_sum(5, kCount), sum);
}

TEST(HostKernels, LeaveNeighboursAlone) {
  constexpr std::size_t kCount = 64;
  alignas(64) double a[kCount], b[kCount], out[kCount];
  for (std::size_t i = 0; i < kCount; ++i) {
    a[i] = input(1, 0, i);
    b[i] = input(1, 1, i);
  }
  for (const auto& each : kOperations) {
    for (const auto stores : {Stores::standard, Stores::streaming}) {
      if (stores == Stores::streaming && !has_streaming_stores()) continue;
      std::fill(std::begin(out), std::end(out), -1.0);
      const double sum = run_on_host(each.operation, stores, {out, a, b, kCount}, 8, 56);
      if (each.writes == 0) {
        EXPECT_EQ(sum, std::accumulate(a + 8, a + 56, 0.0));
        continue;
      }
      for (std::size_t i = 0; i < kCount; ++i)
        EXPECT_EQ(out[i], i >= 8 && i < 56 ? expected(each.operation, 1, i) : -1.0) << each.name << " " << i;
    }
  }
}

}  // namespace
}  // namespace isthmus::microbench::stream
