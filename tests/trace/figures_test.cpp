// Tests with handmade streams of events, whose figures are known.

#include "trace/uvm/figures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

namespace isthmus::trace::uvm {
namespace {

constexpr std::uint64_t kUs = 1000, kBase = 5'000'000'000;

GpuFault fault(std::uint64_t page, std::uint32_t batch, std::uint64_t time, std::uint16_t gpc = 0,
               std::uint16_t client = 0) {
  return {.gpu = 1,
          .gpc = gpc,
          .client = client,
          .address = page * kPageBytes,
          .time = kBase + time,
          .gpu_time = kBase + time - 10 * kUs,
          .batch = batch};
}
Replay replay(std::uint32_t batch, std::uint64_t time) {
  return {.gpu = 1, .batch = batch, .time = kBase + time, .gpu_time = kBase + time + 10 * kUs};
}
Migration move(Cause cause, std::uint64_t bytes, std::uint64_t begin, std::uint64_t end) {
  return {.cause = cause,
          .destination = 1,
          .bytes = bytes,
          .begin = kBase + begin,
          .end = kBase + end,
          .gpu_begin = kBase + begin,
          .gpu_end = kBase + end};
}

/// Returns the events of two batches: three page faults on two pages of one block, and two page faults in two blocks.
std::vector<Event> two_batches() {
  return {fault(1000, 7, 100 * kUs, 2, 1),
          fault(1001, 7, 101 * kUs, 2, 2),
          fault(1001, 7, 102 * kUs, 3, 1),
          move(Cause::fault, 8192, 110 * kUs, 120 * kUs),
          move(Cause::prefetch, 65536, 115 * kUs, 140 * kUs),
          replay(7, 150 * kUs),
          fault(2000, 8, 250 * kUs),
          fault(4000, 8, 260 * kUs),
          move(Cause::fault, 8192, 270 * kUs, 280 * kUs),
          replay(8, 300 * kUs)};
}

TEST(UvmFigures, NothingIsNothing) {
  const auto none = figures_of({});
  EXPECT_EQ(none.faults, 0u);
  EXPECT_EQ(none.faults_of_batch.count, 0u);
  ASSERT_TRUE(none.times);
  EXPECT_EQ(none.times->service, 0);
  EXPECT_FALSE(none.times->latency_p50);
}

void expect_two_batches(const Figures& found) {
  EXPECT_EQ(found.faults, 5u);
  EXPECT_EQ(found.pages, 4u);
  ASSERT_EQ(found.batches.size(), 2u);
  EXPECT_EQ(found.replays, 2u);
  EXPECT_DOUBLE_EQ(found.faults_of_batch.mean, 2.5);
  EXPECT_DOUBLE_EQ(found.faults_of_batch.deviation, 0.5);
  EXPECT_DOUBLE_EQ(found.blocks_of_batch.mean, 1.5);
  EXPECT_DOUBLE_EQ(found.clients_of_batch.mean, 2);  // (2,1), (2,2) and (3,1) in the first batch; (0,0) in the second
  EXPECT_DOUBLE_EQ(found.gpcs_of_batch.mean, 1.5);
  // The blocks have 3, 1 and 1 page faults in a batch.
  EXPECT_EQ(found.faults_of_block.count, 3u);
  EXPECT_DOUBLE_EQ(found.faults_of_block.mean, 5.0 / 3);
  EXPECT_DOUBLE_EQ(found.faults_of_block.least, 1);
  EXPECT_DOUBLE_EQ(found.faults_of_block.most, 3);
  EXPECT_EQ(found.of(Cause::fault), 16384u);
  EXPECT_EQ(found.of(Cause::prefetch), 65536u);
  EXPECT_EQ(found.of(Cause::eviction), 0u);
  EXPECT_EQ(found.of(Cause::user), 0u);
  EXPECT_TRUE(found.problems.empty());
  ASSERT_TRUE(found.times);
  EXPECT_NEAR(found.times->service, 100e-6, 1e-12);  // from 100 to 150 us and from 250 to 300 us
  EXPECT_NEAR(found.times->between, 100e-6, 1e-12);  // from 150 to 250 us
  EXPECT_NEAR(found.times->transfer, 40e-6, 1e-12);  // from 110 to 140 us and from 270 to 280 us
  // Page faults are written 10 us before they are handled and retried 10 us after the replay: 70, 69, 68, 70, 60 us.
  EXPECT_NEAR(*found.times->latency_p50, 69e-6, 1e-12);
  EXPECT_NEAR(*found.times->latency_p95, 70e-6, 1e-12);
  EXPECT_NEAR(found.batches[0].begin, 0, 1e-12);
  EXPECT_NEAR(found.batches[0].last, 2e-6, 1e-12);
  EXPECT_NEAR(*found.batches[1].replay, 200e-6, 1e-12);
  EXPECT_EQ(found.batches[0].moves, 2u);
  EXPECT_EQ(found.batches[0].bytes, 73728u);
  EXPECT_NEAR(found.batches[0].transfer, 35e-6, 1e-12) << "10 and 25, though they overlap";
  EXPECT_EQ(found.batches[1].bytes, 8192u);
  EXPECT_NEAR(found.batches[1].transfer, 10e-6, 1e-12);
  ASSERT_EQ(found.migrations.size(), 3u);
  EXPECT_EQ(found.migrations[1].cause, Cause::prefetch);
  EXPECT_NEAR(*found.migrations[1].seconds, 25e-6, 1e-12);
}

TEST(UvmFigures, TwoBatches) {
  expect_two_batches(figures_of(two_batches()));
}

// A batch does not include moves that the program requested, moves between batches, or moves of another GPU.
TEST(UvmFigures, OfABatchIsWhatMovedInItsService) {
  auto events = two_batches();
  const auto elsewhere = [&](Cause cause, std::uint64_t begin, std::uint8_t source, std::uint8_t destination) {
    auto one = move(cause, 4096, begin, begin + kUs);
    one.source = source;
    one.destination = destination;
    events.emplace_back(one);
  };
  elsewhere(Cause::user, 120 * kUs, 0, 1);
  elsewhere(Cause::fault, 99 * kUs, 0, 1);   // before the first batch
  elsewhere(Cause::fault, 151 * kUs, 0, 1);  // after the replay of the first batch
  elsewhere(Cause::fault, 120 * kUs, 1, 0);  // for a page fault of the host
  elsewhere(Cause::eviction, 120 * kUs, 2, 0);
  for (const auto& batch : figures_of(events).batches) EXPECT_EQ(batch.moves, batch.number == 7 ? 2u : 1u);
  elsewhere(Cause::eviction, 120 * kUs, 1, 0);
  elsewhere(Cause::fault, 150 * kUs, 0, 1);  // at the time of the first batch's replay
  elsewhere(Cause::fault, 250 * kUs, 0, 1);  // at the time of the second batch's first page fault
  std::get<Migration>(events.back()).gpu_begin = 0;
  std::get<Migration>(events.back()).gpu_end = kUs;
  const auto found = figures_of(events);
  EXPECT_EQ(found.batches[0].moves, 4u);
  EXPECT_EQ(found.batches[0].bytes, 73728u + 2 * 4096u);
  EXPECT_NEAR(found.batches[0].transfer, 37e-6, 1e-12);
  EXPECT_EQ(found.batches[1].moves, 2u);
  EXPECT_NEAR(found.batches[1].transfer, 10e-6, 1e-12) << "nobody waited for the end of the other";
  std::erase_if(events, [](const Event& event) {
    const auto* replay = std::get_if<Replay>(&event);
    return replay != nullptr && replay->batch == 8;
  });
  EXPECT_EQ(figures_of(events).batches[1].moves, 0u) << "without a replay its service has no end";
}

TEST(UvmFigures, TheOrderOfTheEventsSaysNothing) {
  auto events = two_batches();
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(events.begin(), events.end(), random);
    expect_two_batches(figures_of(events));
  }
}

// --- evictions: handmade streams of programs on a GPU with too little memory -----------------------------------------

/// Program that touches one block after another on a GPU with room for eight blocks.
class Short {
 public:
  /// Function that chooses which of `count` resident blocks to evict; block 0 was fetched first.
  using Choose = std::function<std::size_t(std::size_t count)>;
  explicit Short(Choose choose) : choose_(std::move(choose)) {}

  void touch(std::uint64_t block) {
    if (std::find(there_.begin(), there_.end(), block) != there_.end()) return;
    if (there_.size() == 8) {
      const auto at = there_.begin() + static_cast<std::ptrdiff_t>(choose_(there_.size()));
      move(Cause::eviction, 1, 0, *at * kBlockBytes, kBlockBytes);
      there_.erase(at);
    }
    move(Cause::fault, 0, 1, block * kBlockBytes, kBlockBytes);
    there_.push_back(block);
  }
  void move(Cause cause, std::uint8_t from, std::uint8_t to, std::uint64_t address, std::uint64_t bytes) {
    events.emplace_back(Migration{.cause = cause,
                                  .source = from,
                                  .destination = to,
                                  .address = address,
                                  .bytes = bytes,
                                  .begin = kBase + kUs * now_++});
  }
  void host_touches(std::uint64_t address) {
    events.emplace_back(CpuFault{.address = address, .time = kBase + kUs * now_++});
  }
  Evictions evictions() const {
    const auto found = figures_of(events).evictions;
    EXPECT_TRUE(found);
    return found.value_or(Evictions{});
  }
  std::vector<Event> events;

 private:
  Choose choose_;
  std::vector<std::uint64_t> there_;
  std::uint64_t now_ = 0;
};

constexpr auto kOldest = [](std::size_t) { return std::size_t{0}; };
constexpr auto kYoungest = [](std::size_t count) { return count - 1; };

/// Returns a program that touches twelve blocks in order, twice.
Short two_sweeps(Short::Choose choose) {
  Short program(std::move(choose));
  for (std::uint64_t i = 0; i < 24; ++i) program.touch(i % 12);
  return program;
}

TEST(UvmEvictions, WhereNothingIsEvictedThereAreNone) {
  Short program(kOldest);
  for (std::uint64_t block = 0; block < 8; ++block) program.touch(block);
  EXPECT_FALSE(figures_of(program.events).evictions);
}

TEST(UvmEvictions, HaveAnOrder) {
  EXPECT_EQ(two_sweeps(kOldest).evictions().age, 0);
  EXPECT_EQ(two_sweeps(kYoungest).evictions().age, 1);
  std::mt19937 random(1);
  Short program([&](std::size_t count) { return random() % count; });
  for (int i = 0; i < 2000; ++i) program.touch(random() % 40);
  EXPECT_NEAR(*program.evictions().age, 0.5, 0.05);
}

TEST(UvmEvictions, WhatComesBackIsCounted) {
  // The first 8 of 24 touches evict nothing. In the second sweep, all 12 blocks have been evicted and must return.
  const auto program = two_sweeps(kOldest);
  const auto found = program.evictions();
  EXPECT_EQ(found.blocks, 16u);
  EXPECT_EQ(found.returned, 12u);
  EXPECT_EQ(found.returned_bytes, 12 * kBlockBytes);
  EXPECT_EQ(found.discarded_bytes, 0u);
  EXPECT_EQ(figures_of(program.events).of(Cause::eviction), 16 * kBlockBytes);
}

TEST(UvmEvictions, TheOrderOfTheEventsSaysNothing) {
  auto program = two_sweeps(kOldest);
  std::shuffle(program.events.begin(), program.events.end(), std::mt19937(5));
  EXPECT_EQ(program.evictions().age, 0);
  EXPECT_EQ(program.evictions().returned, 12u);
}

TEST(UvmEvictions, ABlockThatLeavesInPiecesIsEvictedOnce) {
  Short program(kOldest);
  program.touch(0);
  program.touch(1);
  for (std::uint64_t i = 0; i < 4; ++i) program.move(Cause::eviction, 1, 0, i * kBlockBytes / 4, kBlockBytes / 4);
  EXPECT_EQ(program.evictions().blocks, 1u);
  EXPECT_EQ(program.evictions().age, 0);
}

TEST(UvmEvictions, WhatArrivesAgainWithoutHavingLeftWasDiscarded) {
  Short program(kOldest);
  for (std::uint64_t block = 0; block < 9; ++block) program.touch(block);
  program.move(Cause::fault, 0, 1, 5 * kBlockBytes, kBlockBytes / 2);
  EXPECT_EQ(program.evictions().discarded_bytes, kBlockBytes / 2);
  program.host_touches(6 * kBlockBytes);  // may remove a read-only copy on the GPU
  program.move(Cause::fault, 0, 1, 6 * kBlockBytes, kBlockBytes);
  EXPECT_EQ(program.evictions().discarded_bytes, kBlockBytes / 2);
}

TEST(UvmEvictions, EachGpuHasItsOwnMemory) {
  Short program(kOldest);
  program.move(Cause::fault, 0, 1, 0, kBlockBytes);
  program.move(Cause::fault, 1, 2, 0, kBlockBytes);
  program.move(Cause::fault, 2, 1, 0, kBlockBytes);
  program.move(Cause::eviction, 1, 0, 0, kBlockBytes);
  EXPECT_EQ(program.evictions().blocks, 1u);
  EXPECT_EQ(program.evictions().discarded_bytes, 0u);
  EXPECT_FALSE(program.evictions().age) << "there was no other block to choose";
}

TEST(UvmEvictions, AMoveOverBlocksIsThatOfEach) {
  Short program(kOldest);
  program.move(Cause::user, 0, 1, kBlockBytes - kPageBytes, 2 * kPageBytes);
  program.move(Cause::eviction, 1, 0, kBlockBytes - kPageBytes, 2 * kPageBytes);
  EXPECT_EQ(program.evictions().blocks, 2u);
}

TEST(UvmEvictions, WhatNoDriverMovesTakesNoTime) {
  Short program(kOldest);
  program.move(Cause::eviction, 1, 0, 0, ~std::uint64_t{0});
  program.move(Cause::eviction, 1, 0, ~std::uint64_t{0} - kPageBytes, 2 * kPageBytes);
  program.move(Cause::eviction, 1, 0, kBlockBytes, 0);
  program.move(Cause::eviction, 1, 0, 0, 0);
  program.move(Cause::fault, 0, 1, 0, 0);
  EXPECT_EQ(program.evictions().blocks, 0u);
}

TEST(UvmFigures, BatchesOfOneNumberOnTwoGpusAreTwo) {
  auto other = fault(1, 7, 0);
  other.gpu = 2;
  auto hub = fault(2, 7, 0);
  hub.client_kind = Client::hub;
  const std::vector<Event> events = {fault(1, 7, 0), other, hub, replay(7, 5 * kUs)};
  const auto found = figures_of(events);
  EXPECT_EQ(found.batches.size(), 3u);
  EXPECT_EQ(found.replays, 1u);
  EXPECT_EQ(
      std::count_if(found.batches.begin(), found.batches.end(), [](const auto& b) { return b.replay.has_value(); }), 1);
}

TEST(UvmFigures, AReplayThatDoesNotTellItsClientIsOfTheSms) {
  auto old = replay(7, 5 * kUs);
  old.client_kind = Client::none;
  EXPECT_EQ(figures_of(std::vector<Event>{fault(1, 7, 0), old}).replays, 1u);
}

TEST(UvmFigures, ABatchWithoutReplayIsCountedAndNotTimed) {
  const auto found = figures_of(std::vector<Event>{fault(1, 1, 0), replay(1, 50 * kUs), fault(2, 2, 100 * kUs)});
  EXPECT_EQ(found.batches.size(), 2u);
  EXPECT_EQ(found.replays, 1u);
  ASSERT_TRUE(found.times);
  EXPECT_NEAR(found.times->service, 50e-6, 1e-12);
  EXPECT_EQ(found.times->between, 0);
}

void expect_no_times(const std::vector<Event>& events, const char* sentence) {
  const auto found = figures_of(events);
  EXPECT_FALSE(found.times) << sentence;
  ASSERT_EQ(found.problems.size(), 1u) << sentence;
  EXPECT_NE(found.problems[0].find(sentence), std::string::npos) << found.problems[0];
  EXPECT_NE(found.problems[0].find("clock jumped"), std::string::npos);
}

TEST(UvmFigures, AClockThatJumpsCostsTheTimesAndNotTheCounts) {
  const auto events = two_batches();
  auto changed = events;
  std::get<Replay>(changed[5]).time = kBase;  // before the page faults of its batch
  expect_no_times(changed, "1 of 2 batches are replayed before");
  EXPECT_EQ(figures_of(changed).faults, 5u);
  changed = events;
  std::get<Replay>(changed[9]).time += 3'600'000'000'000;  // one hour later
  expect_no_times(changed, "1 of 2 batches are replayed before their faults were fetched or over a minute later");
  changed = events;
  std::get<GpuFault>(changed[0]).gpu_time += 1'000'000 * kUs;
  expect_no_times(changed, "1 of 5 faults are replayed before the GPU wrote them");
  changed = events;
  std::get<Migration>(changed[3]).gpu_end = kBase;
  expect_no_times(changed, "1 of 3 migrations end before they begin");
}

TEST(UvmFigures, MovesThatNobodyWaitedForHaveNoTime) {
  auto one = move(Cause::user, 4096, 0, 0);
  one.gpu_begin = one.gpu_end = one.end = 0;
  const auto found = figures_of(std::vector<Event>{one});
  EXPECT_EQ(found.of(Cause::user), 4096u);
  ASSERT_TRUE(found.times);
  EXPECT_EQ(found.times->transfer, 0);
  EXPECT_FALSE(found.migrations.at(0).seconds);
}

TEST(UvmFigures, MovesAtOnceAreTransferOnce) {
  const auto found = figures_of(std::vector<Event>{move(Cause::fault, 1, 0, 10), move(Cause::fault, 1, 5, 15),
                                                   move(Cause::fault, 1, 6, 8), move(Cause::fault, 1, 20, 21)});
  EXPECT_NEAR(found.times->transfer, 16e-9, 1e-15);
}

TEST(UvmFigures, EverythingElseIsCounted) {
  const std::vector<Event> events = {
      CpuFault{.time = 1},
      CpuFault{.time = 2},
      Thrashing{.time = 3},
      RemoteMap{.time = 4},
      FatalFault{.time = 5},
      Other{14},
      move(static_cast<Cause>(200), 4096, 0, 1),
      Throttling{.processor = 1, .address = 1, .time = 100},
      Throttling{.processor = 1, .address = 2, .time = 150},
      Throttling{.type = Type::throttling_end, .processor = 1, .address = 1, .time = 400},
      Throttling{.type = Type::throttling_end, .processor = 1, .address = 3, .time = 500}};
  const auto found = figures_of(events);
  EXPECT_EQ(found.cpu_faults, 2u);
  EXPECT_EQ(found.thrashings, 1u);
  EXPECT_EQ(found.remote_maps, 1u);
  EXPECT_EQ(found.fatal_faults, 1u);
  EXPECT_EQ(found.others, 1u);
  EXPECT_EQ(found.bytes[0], 4096u) << "of no cause that is known";
  EXPECT_EQ(found.throttlings, 2u);
  EXPECT_NEAR(found.times->throttled, 300e-9, 1e-15) << "what has no end, or no begin, has no length";
}

}  // namespace
}  // namespace isthmus::trace::uvm
