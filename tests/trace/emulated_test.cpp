// Tests of the reader, the figures and the observer on the emulated device, whose managed pages behave as with a real
// driver.

#include <set>

#include "../emulated_machine.hpp"
#include "../microbench/catalogue.hpp"
#include "device/kernel/kernel.hpp"
#include "harness/measure/watch/uvm_observer.hpp"
#include "trace/uvm/emulated_driver.hpp"
#include "trace/uvm/figures.hpp"
#include "trace/uvm/range_groups.hpp"
#include "trace/uvm/source.hpp"

namespace isthmus::trace::uvm {
namespace {

constexpr std::size_t kStep = kPageBytes / sizeof(unsigned);

// for (i = 0; i < pages; ++i) words[i * step] += 1;
__global__ void touch(unsigned* words, std::size_t step, std::size_t pages) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < pages) words[i * step] += 1;
}

class UvmEmulated : public device::EmulatorTest {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    configure("workers=1");
  }
};

/// Managed memory in which the host has written the first word of each page, unless `touched` is false.
class Managed {
 public:
  explicit Managed(std::size_t bytes, bool touched = true)
      : pages_(bytes / kPageBytes), words_(static_cast<unsigned*>(device::malloc_managed(bytes))) {
    for (std::size_t i = 0; touched && i < pages_; ++i) words_[i * kStep] = 0;
  }
  ~Managed() { device::free_managed(words_); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  unsigned* words() const { return words_; }
  std::size_t pages() const { return pages_; }
  /// Touches every `every`th page on the device, with one thread per page.
  void touch_on_device(std::size_t every = 1) {
    const auto threads = pages_ / every;
    launch(stream_, ISTHMUS_KERNEL(touch), {.grid = static_cast<unsigned>((threads + 255) / 256), .block = 256}, words_,
           every * kStep, threads);
    stream_.synchronize();
  }
  void prefetch(int device) {
    device::prefetch(words_, pages_ * kPageBytes, {device}, stream_);
    stream_.synchronize();
  }
  unsigned sum() const {
    unsigned sum = 0;
    for (std::size_t i = 0; i < pages_; ++i) sum += words_[i * kStep];
    return sum;
  }

 private:
  std::size_t pages_;
  unsigned* words_;
  device::Stream stream_;
};

Figures taken_from(Source& source) {
  const auto taken = source.take();
  EXPECT_EQ(taken.dropped, 0u);
  auto figures = figures_of(taken.events);
  EXPECT_TRUE(figures.problems.empty());
  return figures;
}

TEST_F(UvmEmulated, APageOnPurposeGivesItsFaultAndTheSourceIsBelieved) {
  const auto source = attach();
  EXPECT_NE(source->name().find("emulated"), std::string::npos);
}

TEST_F(UvmEmulated, WhereThereIsNoConcurrentManagedMemoryThereIsNoSource) {
  configure("concurrent_managed=0");
  EXPECT_THROW(attach(), Unavailable);
}

TEST_F(UvmEmulated, AThreadAPage) {
  const auto source = attach();
  Managed memory(std::size_t{4} << 20);
  source->take();
  memory.touch_on_device();
  const auto found = taken_from(*source);
  EXPECT_EQ(found.faults, 1024u);
  EXPECT_EQ(found.pages, 1024u);
  EXPECT_EQ(found.batches.size(), 4u);
  EXPECT_EQ(found.replays, 4u);
  EXPECT_EQ(found.faults_of_batch.most, 256);
  EXPECT_EQ(found.blocks_of_batch.mean, 1);
  EXPECT_EQ(found.of(Cause::fault), std::size_t{4} << 20);
  EXPECT_EQ(found.of(Cause::prefetch), 0u);
  memory.touch_on_device();
  EXPECT_EQ(taken_from(*source).faults, 0u) << "they are there now";
  EXPECT_EQ(memory.sum(), 2 * 1024u);
}

TEST_F(UvmEmulated, APageInSixteenBringsTheOthers) {
  const auto source = attach();
  Managed memory(std::size_t{4} << 20);
  source->take();
  memory.touch_on_device(16);
  const auto found = taken_from(*source);
  EXPECT_EQ(found.faults, 64u);
  ASSERT_EQ(found.batches.size(), 1u);
  EXPECT_EQ(found.batches[0].blocks, 2u);
  EXPECT_EQ(found.faults_of_block.mean, 32);
  EXPECT_EQ(found.of(Cause::fault), 64 * kPageBytes);
  EXPECT_EQ(found.of(Cause::fault) + found.of(Cause::prefetch), std::size_t{4} << 20);
}

TEST_F(UvmEmulated, TheHostTouchesItBackInSixFaultsABlock) {
  const auto source = attach();
  Managed memory(std::size_t{4} << 20);
  memory.touch_on_device();
  source->take();
  EXPECT_EQ(memory.sum(), 1024u);
  const auto found = taken_from(*source);
  EXPECT_EQ(found.cpu_faults, 12u);
  EXPECT_EQ(found.faults, 0u);
  EXPECT_EQ(found.of(Cause::fault), 12 * kPageBytes);
  EXPECT_EQ(found.of(Cause::fault) + found.of(Cause::prefetch), std::size_t{4} << 20);
}

// --- range groups -----------------------------------------------------------------------------------

/// Figures of a kernel that touches every sixteenth page, and of the host's accesses afterwards.
struct Brought {
  Figures to_device, to_host;
};
Brought brought(std::size_t piece) {
  const auto source = attach();
  const auto driver = driver_of_device();
  Managed memory(std::size_t{4} << 20);
  std::optional<RangeGroups> groups;
  if (piece > 0) {
    groups.emplace(*driver, reinterpret_cast<std::uintptr_t>(memory.words()), std::size_t{4} << 20, piece);
    EXPECT_EQ(groups->pieces(), (std::size_t{4} << 20) / piece);
  }
  source->take();
  memory.touch_on_device(16);
  Brought all;
  all.to_device = taken_from(*source);
  EXPECT_EQ(memory.sum(), 64u);
  all.to_host = taken_from(*source);
  return all;
}

TEST_F(UvmEmulated, PiecesOfAPageLeaveThePrefetcherNothing) {
  const auto off = brought(kPageBytes);
  EXPECT_EQ(off.to_device.faults, 64u);
  EXPECT_EQ(off.to_device.of(Cause::fault), 64 * kPageBytes);
  EXPECT_EQ(off.to_device.of(Cause::prefetch), 0u);
  EXPECT_EQ(off.to_host.cpu_faults, 64u);
  EXPECT_EQ(off.to_host.of(Cause::prefetch), 0u);
}

TEST_F(UvmEmulated, PiecesOfSixtyFourKibibytesBringTheirOwnRest) {
  const auto source = attach();
  const auto driver = driver_of_device();
  Managed memory(std::size_t{2} << 20);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.words());
  const auto touch_half = [&] {  // touches a page in every second 64 KiB; without groups the whole block would move
    source->take();
    memory.touch_on_device(32);  // one page in 128 KiB
    return taken_from(*source);
  };
  std::optional<RangeGroups> groups(std::in_place, *driver, address, std::size_t{2} << 20, std::size_t{64} << 10);
  const auto held = touch_half();
  EXPECT_EQ(held.faults, 16u);
  EXPECT_EQ(held.of(Cause::fault) + held.of(Cause::prefetch), 16 * (std::size_t{64} << 10));
  EXPECT_EQ(memory.sum(), 16u);
  groups.emplace(*driver, address, std::size_t{2} << 20, std::size_t{2} << 20);
  const auto wide = touch_half();
  groups.reset();
  EXPECT_EQ(memory.sum(), 2 * 16u);
  const auto free = touch_half();
  EXPECT_EQ(wide.of(Cause::prefetch), free.of(Cause::prefetch)) << "a block is what the prefetcher looks at anyway";
  EXPECT_EQ(memory.sum(), 3 * 16u);
}

TEST_F(UvmEmulated, AfterTheGroupsThePrefetcherIsAsItWas) {
  const auto before = brought(0);
  brought(kPageBytes);
  const auto after = brought(0);
  EXPECT_GT(before.to_device.of(Cause::prefetch), 0u);
  EXPECT_EQ(after.to_device.of(Cause::prefetch), before.to_device.of(Cause::prefetch));
  EXPECT_EQ(after.to_host.of(Cause::prefetch), before.to_host.of(Cause::prefetch));
}

TEST_F(UvmEmulated, MemoryThatIsNotManagedHasNoGroups) {
  const auto driver = driver_of_device();
  std::vector<std::byte> plain(kPageBytes * 2);
  EXPECT_THROW(RangeGroups(*driver, reinterpret_cast<std::uintptr_t>(plain.data()), kPageBytes, kPageBytes),
               Unavailable);
}

TEST_F(UvmEmulated, WhatTheDeviceTouchesFirstMovesNothing) {
  const auto source = attach();
  Managed memory(std::size_t{2} << 20, false);
  source->take();
  memory.touch_on_device(16);
  const auto found = taken_from(*source);
  EXPECT_EQ(found.faults, 32u);
  EXPECT_TRUE(found.migrations.empty());
}

TEST_F(UvmEmulated, WhatIsPrefetchedDoesNotFault) {
  const auto source = attach();
  Managed memory(std::size_t{4} << 20);
  source->take();
  memory.prefetch(0);
  memory.touch_on_device();
  memory.prefetch(-1);
  EXPECT_EQ(memory.sum(), 1024u);
  const auto found = taken_from(*source);
  EXPECT_EQ(found.faults + found.cpu_faults, 0u);
  EXPECT_EQ(found.of(Cause::user), std::size_t{8} << 20);
}

TEST_F(UvmEmulated, ACopyMovesNoPages) {
  const auto source = attach();
  Managed memory(std::size_t{2} << 20);
  memory.touch_on_device();
  source->take();
  std::vector<std::byte> host(std::size_t{2} << 20);
  device::copy(host.data(), memory.words(), host.size());
  const auto found = taken_from(*source);
  EXPECT_EQ(found.cpu_faults + found.faults, 0u);
  EXPECT_EQ(memory.sum(), 512u);
  EXPECT_EQ(taken_from(*source).cpu_faults, 6u) << "and they are still on the device";
}

TEST_F(UvmEmulated, NobodyWatchesOnceTheSourceIsGone) {
  Managed memory(std::size_t{2} << 20);
  {
    const auto source = attach();
  }
  memory.touch_on_device();
  EXPECT_EQ(memory.sum(), 512u);
  const auto again = attach();
  again->take();
  memory.touch_on_device();
  EXPECT_GT(taken_from(*again).faults, 0u);
}

TEST_F(UvmEmulated, AFullQueueDrops) {
  EmulatedDriver driver;
  Queue queue(driver, {.entries = 4});
  Managed memory(std::size_t{4} << 20);
  memory.touch_on_device();
  EXPECT_GT(queue.take().dropped, 0u);
}

// --- self-test --------------------------------------------------------------------------------------

TEST(UvmSelfTest, OneFaultAtTheAddressAndItsReplay) {
  constexpr std::uint64_t kAddress = 0x7f0000200000;
  const GpuFault fault{.address = kAddress + 8, .batch = 3};
  const Replay replay{.batch = 3};
  EXPECT_EQ(self_test_problem({.events = {fault, replay}}, kAddress), "");
  EXPECT_EQ(self_test_problem({.events = {GpuFault{.address = 0x1000}, fault, replay}}, kAddress), "")
      << "what another thread does elsewhere";
  const auto refused = [&](const Taken& taken, const char* why) {
    const auto problem = self_test_problem(taken, kAddress);
    EXPECT_NE(problem.find(why), std::string::npos) << problem;
  };
  refused({.events = {replay}}, "no fault is reported");
  refused({.events = {GpuFault{.address = kAddress + kPageBytes, .batch = 3}, replay}}, "no fault is reported");
  refused({.events = {fault, GpuFault{.address = kAddress + kPageBytes, .batch = 3}, replay}}, "at other addresses");
  refused({.events = {fault}}, "no replay");
  refused({.events = {fault, Replay{.batch = 4}}}, "no replay");
  refused({.events = {fault, replay}, .dropped = 1}, "dropped");
}

// --- the observer -----------------------------------------------------------------------------------

class UvmObserved : public UvmEmulated {
 protected:
  static harness::CaseResult observed(const std::string& workload, const std::string& placement,
                                      std::vector<std::string> settings, std::optional<int> samples = std::nullopt) {
    const std::shared_ptr<Source> source = attach();
    harness::RequestTexts request;
    request.patterns = {workload};
    request.placements = {placement};
    request.settings = std::move(settings);
    harness::RunContext context;
    context.device = device::info(0);
    context.sampling.samples = samples;
    context.observers = {{"uvm", [&] { return std::make_unique<harness::UvmObserver>(*source); }}};
    const auto cases = harness::plan(harness::parse_request(request));
    return harness::run_case(cases.front(), context);
  }
  static std::vector<double> samples(const harness::CaseResult& result, const char* metric) {
    const auto* series = result.find(metric);
    EXPECT_NE(series, nullptr) << metric;
    return series != nullptr ? series->samples : std::vector<double>{};
  }
};

TEST_F(UvmObserved, EverySampleHasItsFigures) {
  const auto result = observed("apps/hotspot", "managed_demand", {"rows=256", "cols=512", "steps=1"}, 3);
  EXPECT_EQ(microbench::complaint(result), "");
  EXPECT_EQ(result.observed_by, std::vector<std::string>{"uvm"});
  const auto faults = samples(result, "uvm_faults"), pages = samples(result, "uvm_pages"),
             batches = samples(result, "uvm_batches"), replays = samples(result, "uvm_replays");
  ASSERT_EQ(faults.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GT(faults[i], 0);
    EXPECT_EQ(pages[i], faults[i]) << "the emulated device has no duplicates";
    EXPECT_GE(batches[i], faults[i] / 256);
    EXPECT_EQ(replays[i], batches[i]);
    EXPECT_EQ(pages[i], pages[0]) << "each sample starts from the host";
  }
  EXPECT_EQ(result.notes.at("uvm_source"), "an emulated driver's event queue");
  std::set<std::string> tables;
  for (const auto& table : result.tables) tables.insert(table.name);
  EXPECT_EQ(tables, (std::set<std::string>{"uvm_batches", "uvm_migrations"}));
}

TEST_F(UvmObserved, AnEmulatedCaseThatTakesNoSamplesTakesOneToBeSeen) {
  const auto result = observed("apps/hotspot", "managed_demand", {"rows=64", "cols=64", "steps=1"});
  EXPECT_EQ(microbench::complaint(result), "");
  EXPECT_EQ(samples(result, "uvm_faults").size(), 1u);
}

TEST_F(UvmObserved, ThePrefetcherIsOffWhereItIsAskedFor) {
  const std::vector<std::string> shape = {"rows=256", "cols=512", "steps=1"};
  auto off = shape, pieces = shape;
  off.emplace_back("driver_prefetch=off");
  pieces.emplace_back("driver_prefetch=64KiB");
  const auto as_it_is = observed("apps/hotspot", "managed_demand", shape, 2);
  const auto without = observed("apps/hotspot", "managed_demand", off, 2);
  const auto some = observed("apps/hotspot", "managed_demand", pieces, 2);
  for (const auto* result : {&as_it_is, &without, &some}) EXPECT_EQ(microbench::complaint(*result), "");
  EXPECT_EQ(as_it_is.spec.find("driver_prefetch"), nullptr) << "what is as ever is no axis of the record";
  EXPECT_EQ(as_it_is.find("driver_prefetch_setup"), nullptr);
  for (const double bytes : samples(as_it_is, "uvm_prefetch_bytes")) EXPECT_GT(bytes, 0);
  for (const double bytes : samples(some, "uvm_prefetch_bytes")) EXPECT_GT(bytes, 0);
  for (const double bytes : samples(without, "uvm_prefetch_bytes")) EXPECT_EQ(bytes, 0);
  for (const double seconds : samples(without, "driver_prefetch_setup")) EXPECT_GT(seconds, 0);
  EXPECT_GT(samples(without, "uvm_cpu_faults").at(0), samples(as_it_is, "uvm_cpu_faults").at(0))
      << "the host fetches its results page by page";
  for (const auto& warning : without.warnings) EXPECT_NE(warning.code, "driver_prefetch_on");
}

TEST_F(UvmObserved, OffIsRefusedForMoreThanTwoGibibytes) {
  const auto result = observed("apps/va", "managed_demand", {"n=300000000", "driver_prefetch=off"});
  ASSERT_TRUE(result.skipped);
  EXPECT_NE(result.skipped->find("driver_prefetch=off supports at most 2 GiB"), std::string::npos) << *result.skipped;
}

TEST_F(UvmObserved, PlacementsWithoutManagedMemoryHaveNoPrefetcher) {
  const auto result = observed("apps/hotspot", "pinned", {"rows=64", "cols=64", "steps=1", "driver_prefetch=off"});
  ASSERT_TRUE(result.skipped);
  EXPECT_NE(result.skipped->find("is for managed memory"), std::string::npos) << *result.skipped;
}

TEST_F(UvmObserved, ProgramsAreRightWhileTheirPagesMove) {
  configure("workers=3");
  for (const char* placement : {"managed_in", "managed", "managed_demand", "managed_advise"}) {
    for (const auto& [workload, setting] :
         {std::pair{"apps/bfs", "scale=8"}, std::pair{"apps/lud", "n=67"}, std::pair{"apps/fft", "n=1000"}}) {
      const auto result = observed(workload, placement, {setting});
      EXPECT_EQ(microbench::complaint(result), "") << workload << " " << placement;
      EXPECT_NE(result.find("uvm_faults"), nullptr);
    }
  }
}

}  // namespace
}  // namespace isthmus::trace::uvm
