// Tests of atomics/* on emulated machines with one and two GPUs, and on this machine's CPU.

#include <algorithm>
#include <set>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "memory/processors.hpp"
#include "microbench/atomics/bins.hpp"
#include "microbench/atomics/device_updates.hpp"
#include "microbench/atomics/host_updates.hpp"

namespace isthmus::microbench::atomics {
namespace {

void expect_pass(const std::string& pattern, const std::vector<std::string>& settings, std::size_t cases) {
  const auto results = run_cases(pattern, {}, {}, settings);
  EXPECT_EQ(results.size(), cases) << pattern;
  for (const auto& result : results) {
    EXPECT_EQ(complaint(result), "") << result.spec.label();
    for (const auto& metric : result.metrics) EXPECT_GT(metric.samples.front(), 0) << metric.name;
  }
}

void expect_skip(const std::string& pattern, const std::vector<std::string>& settings, const std::string& reason) {
  const auto results = run_cases(pattern, {}, {}, settings);
  ASSERT_EQ(results.size(), 1u) << pattern;
  ASSERT_TRUE(results[0].skipped) << pattern << " " << complaint(results[0]);
  EXPECT_NE(results[0].skipped->find(reason), std::string::npos) << *results[0].skipped;
}

class Atomics : public device::OnEmulatedMachine {};

TEST_P(Atomics, OfAGpuAreCountedExactly) {
  for (int gpu = 0; gpu < device::count(); ++gpu)
    expect_pass("atomics/gpu" + std::to_string(gpu) + "/histogram",
                {"type=all", "scope=all", "elements=1,1024,8192", "updates=65536", "gpu_threads=0,100", "block=64"},
                48);
}

TEST_P(Atomics, OfAGpuWorkInEveryMemory) {
  expect_pass("atomics/gpu0/histogram",
              {"type=u32", "scope=system", "elements=512", "updates=65536", "memory=all", "block=96"}, 6);
}

TEST_P(Atomics, OfBothAtOnceAreCountedExactly) {
  expect_pass("atomics/gpu0/shared-histogram",
              {"type=all", "elements=1,1024", "memory=managed,pageable", "microseconds=2000"}, 16);
  const auto results = run_cases("atomics/gpu0/shared-histogram", {}, {},
                                 {"type=u64", "elements=1024", "memory=managed", "microseconds=2000"});
  for (const char* metric : {"cpu_rate", "gpu_rate", "cpu_alone", "gpu_alone", "cpu_relative", "gpu_relative"})
    EXPECT_NE(results.at(0).find(metric), nullptr) << metric;
}

TEST_P(Atomics, ALineGoesBetweenCpuAndGpu) {
  expect_pass("atomics/gpu0/ping-pong", {"memory=mapped,registered", "rounds=20"}, 2);
}

INSTANTIATE_TEST_SUITE_P(Emulators, Atomics,
                         testing::Values("pageable_access=1", "warp=64,order=reverse,devices=2,pageable_access=1"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(Atomic, UpdatesWithoutSupportAreSkippedWithTheReason) {
  const std::string shared = "atomics/gpu0/shared-histogram";
  expect_skip(shared, {"type=u64", "elements=1", "memory=mapped"}, "has no atomics on host memory");
  expect_skip(shared, {"type=u64", "elements=1", "memory=device"}, "cannot share device memory");
  expect_skip(shared, {"type=u64", "elements=1", "memory=pageable"}, "pageable memory");
  expect_skip("atomics/gpu0/ping-pong", {"memory=managed"}, "migrate whole pages");
  emulator::configure(emulator::parse("concurrent_managed=0"));
  expect_skip(shared, {"type=u64", "elements=1", "memory=managed"}, "at the same time");
  emulator::configure({});
  emulator::reset();
  expect_skip("atomics/gpu9/histogram", {"type=u64", "elements=1", "scope=device"}, "gpu9 does not exist");
  expect_skip("atomics/gpu0/histogram", {"type=u64", "elements=1", "scope=device", "block=5000"}, "at most");
  expect_skip("atomics/cpu/histogram", {"type=u64", "elements=100", "threads=1"}, "not a power of two");
  expect_skip("atomics/cpu/histogram", {"type=u64", "elements=1", "threads=100000"}, "as many processors");
  expect_skip("atomics/cpu/ping-pong", {"first=100000"}, "does not exist");
}

TEST(Atomic, MemoryThatBothShareIsUpdatedByBoth) {
  emulator::configure(emulator::parse("integrated=1"));
  expect_pass("atomics/gpu0/shared-histogram",
              {"type=f64", "elements=1024", "memory=device,mapped", "microseconds=2000"}, 2);
  emulator::configure({});
  emulator::reset();
}

TEST(Atomic, UpdatesOfTheCpuAreCountedExactly) {
  // With one element, a bin receives 2^17 updates per sample. An f32 bin is checked and cleared before its count is too
  // large to be exact.
  const auto results = run_cases("atomics/cpu/histogram", {}, {},
                                 {"type=all", "elements=1,1024,65536", "threads=1,0", "updates=131072"});
  EXPECT_EQ(results.size(), 24u);
  for (const auto& result : results) {
    EXPECT_EQ(complaint(result), "") << result.spec.label();
    EXPECT_FALSE(harness::is_emulated(*result.spec.workload));
  }
}

TEST(Atomic, FailuresLeaveNothingBehind) {
  const auto before = device::memory_info().free;
  for (const char* call : {"malloc_device:1", "malloc_managed:1", "event_record:2", "stream_synchronize:2"}) {
    device::set_injection(call);
    const auto results = run_cases("atomics/gpu0/shared-histogram", {}, {},
                                   {"type=u64", "elements=1024", "memory=managed", "microseconds=1000"});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].error || results[0].skipped) << call;
    device::set_injection("");
    EXPECT_EQ(device::memory_info().free, before) << call;
  }
}

TEST(Instruction, IsReadFromTheMachineCode) {
  for (const auto type : {Type::u32, Type::u64, Type::f32, Type::f64}) {
    const auto found = host_instruction(type);
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)  // ThreadSanitizer replaces atomic additions by function calls
    // x86 has no atomic addition of floating-point numbers.
    const bool integer = type == Type::u32 || type == Type::u64;
    EXPECT_TRUE(found.starts_with(integer ? "native add (lock " : "compare-and-swap loop (lock cmpxchg") ||
                found.starts_with("unknown: there was no objdump"))
        << found;
#else
    EXPECT_FALSE(found.empty());
#endif
  }
  const auto results = run_cases("atomics/cpu/histogram", {}, {}, {"type=f64", "elements=1", "threads=1"});
  EXPECT_EQ(results.at(0).notes.at("cpu_instruction"), host_instruction(Type::f64));
  const auto gpu =
      run_cases("atomics/gpu0/histogram", {}, {}, {"type=f64", "elements=1", "scope=device", "updates=4096"});
  EXPECT_EQ(gpu.at(0).notes.at("gpu_instruction"), "unknown: the kernels are emulated");
}

TEST(Order, TakesEveryBinOnceAndKnowsItsPlace) {
  for (unsigned bits = 0; bits <= 12; ++bits) {
    const Order order{bits, 3};
    std::set<std::uint64_t> seen;
    for (std::uint64_t k = 0; k < std::uint64_t{1} << bits; ++k) {
      const auto bin = order.bin(k);
      EXPECT_EQ(order.place(bin), k) << bits;
      EXPECT_EQ(order.bin(k + (std::uint64_t{5} << bits)), bin);
      seen.insert(bin);
    }
    EXPECT_EQ(seen.size(), std::size_t{1} << bits);
    EXPECT_LT(*seen.rbegin(), std::uint64_t{1} << bits);
  }
  const Order large{30, 3};
  for (std::uint64_t k : {0ULL, 1ULL, 12345678ULL, (1ULL << 30) - 1}) EXPECT_EQ(large.place(large.bin(k)), k);
}

TEST(ExpectedBins, AreThoseOfCountingOneByOne) {
  for (unsigned bits : {0u, 1u, 5u, 9u}) {
    const Order order{bits, 11};
    const std::uint64_t bins = std::uint64_t{1} << bits;
    const std::vector<atomics::Run> runs{
        {0, 1}, {bins - 1, 2}, {order.start(1), 3 * bins + 7}, {5, 0}, {bins / 2, bins}};
    std::vector<std::uint32_t> counted(bins);
    std::uint64_t total = 0;
    for (const auto& run : runs) {
      total += run.count;
      for (std::uint64_t k = 0; k < run.count; ++k) ++counted[order.bin(run.start + k)];
    }
    const Expected expected(order, runs);
    EXPECT_EQ(expected.total(), total);
    EXPECT_EQ(expected.most(), *std::max_element(counted.begin(), counted.end()));
    const auto right = compare(expected, counted.data(), 0, bins);
    EXPECT_EQ(right.wrong, 0u) << bits;
    EXPECT_EQ(right.sum, static_cast<double>(total));
    // An extra update and an update of the wrong bin are both detected.
    ++counted[bins - 1];
    EXPECT_EQ(compare(expected, counted.data(), 0, bins).wrong, 1u);
    if (bins > 1) {
      --counted[0];
      const auto moved = compare(expected, counted.data(), 0, bins);
      EXPECT_EQ(moved.wrong, 2u);
      EXPECT_EQ(moved.sum, static_cast<double>(total));
    }
  }
}

TEST(PingPong, IsBetweenTheCoresThatAreAskedFor) {
  if (memory::processors().cores.size() < 2) GTEST_SKIP() << "one core";
  expect_pass("atomics/cpu/ping-pong", {"rounds=200"}, 1);
  expect_pass("atomics/cpu/ping-pong", {"rounds=200", "first=0,1", "second=-1"}, 2);
  expect_skip("atomics/cpu/ping-pong", {"rounds=200", "first=1", "second=1"}, "two different cores");
}

}  // namespace
}  // namespace isthmus::microbench::atomics
