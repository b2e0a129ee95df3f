// Tests of how the observer assigns events to samples, and of its warnings about incomplete samples.

#include "harness/measure/watch/uvm_observer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>

#include "harness/measure/results/result.hpp"

namespace isthmus::harness {
namespace {

using namespace trace::uvm;

/// Source that returns the events which the test has prepared, or no events if none are left.
class Script final : public Source {
 public:
  Taken take() override {
    ++asked;
    if (fails) throw Unavailable("the driver does not deliver its remaining events");
    if (next.empty()) return {};
    Taken taken = std::move(next.front());
    next.pop_front();
    return taken;
  }
  const std::string& name() const override { return name_; }

  std::deque<Taken> next;
  bool fails = false;
  int asked = 0;

 private:
  std::string name_ = "a script";
};

Taken faults(std::size_t count) {
  Taken taken;
  for (std::size_t i = 0; i < count; ++i)
    taken.events.emplace_back(GpuFault{.gpu = 1, .address = i * kPageBytes, .time = 100, .gpu_time = 50, .batch = 1});
  taken.events.emplace_back(Replay{.gpu = 1, .batch = 1, .time = 200, .gpu_time = 250});
  return taken;
}

class UvmObserverTest : public testing::Test {
 protected:
  /// Simulates a pass of measure() during which the events `taken` occur.
  void pass(Part part, std::size_t sample, Taken taken) {
    script.next = {{}, std::move(taken)};
    observer.begin("", part, sample);
    observer.begin("kernel", part, sample);
    observer.end();
    observer.end();
  }
  void piece(const char* reading, Part part, std::size_t sample, Taken taken = {}) {
    script.next = {{}, std::move(taken)};
    observer.begin(reading, part, sample);
    observer.end();
  }
  std::vector<double> values(const std::string& metric) {
    for (const auto& series : observer.metrics()) {
      if (series.name == metric) return series.samples;
    }
    return {};
  }

  Script script;
  UvmObserver observer{script};
};

using Values = std::vector<double>;

TEST_F(UvmObserverTest, APassIsASampleAndNothingElseIs) {
  observer.begin("some/workload", Part::inputs, 0);  // encloses all pieces below
  pass(Part::warmups, 0, faults(9));
  piece("host_alloc", Part::samples, 0, faults(9));
  pass(Part::samples, 0, faults(3));
  pass(Part::samples, 1, faults(4));
  piece("overlapped", Part::samples, 0, faults(9));
  piece("", Part::samples, 0, faults(9));  // measures the cost of an empty wait
  observer.end();
  EXPECT_EQ(values("uvm_faults"), (Values{3, 4}));
  EXPECT_EQ(values("uvm_pages"), (Values{3, 4}));
  EXPECT_EQ(values("uvm_replays"), (Values{1, 1}));
  EXPECT_EQ(values("uvm_service_time").size(), 2u);
}

TEST_F(UvmObserverTest, WhatCameBeforeASampleIsNotInIt) {
  script.next = {faults(100), faults(2)};
  observer.begin("sample", Part::samples, 0);
  observer.end();
  EXPECT_EQ(values("uvm_faults"), Values{2});
}

TEST_F(UvmObserverTest, APassBeforeTheSamplesIsOverwritten) {
  auto torn = faults(7);
  torn.dropped = 1;
  pass(Part::samples, 0, torn);  // pass of an allocation cycle
  pass(Part::samples, 0, faults(3));
  EXPECT_EQ(values("uvm_faults"), Values{3});
  EXPECT_TRUE(observer.invalid(0, true).empty()) << "and so is what was wrong with it";
}

TEST_F(UvmObserverTest, ASecondCallOfSampleHasNamesOfItsOwn) {
  piece("sample", Part::samples, 0, faults(1));
  piece("sample", Part::samples, 1, faults(2));
  piece("sample", Part::samples, 0, faults(5));
  EXPECT_EQ(values("uvm_faults"), (Values{1, 2}));
  EXPECT_EQ(values("uvm_2_faults"), Values{5});
}

TEST_F(UvmObserverTest, DroppedEventsSpoilTheirSample) {
  pass(Part::samples, 0, faults(3));
  EXPECT_TRUE(observer.invalid(0, false).empty());
  auto torn = faults(2);
  torn.dropped = 12;
  pass(Part::samples, 1, torn);
  const auto warnings = observer.invalid(1, true);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].code, "uvm_dropped");
  EXPECT_EQ(warnings[0].samples, std::vector<std::size_t>{1});
  EXPECT_NE(warnings[0].message.find("12 events"), std::string::npos);
  EXPECT_TRUE(observer.invalid(1, true).empty()) << "it is told once";
  for (const auto& series : observer.metrics()) EXPECT_EQ(series.invalid, std::vector<std::size_t>{1}) << series.name;
}

TEST_F(UvmObserverTest, AClockThatJumpsCostsTimesAndNoSample) {
  auto jumped = faults(2);
  std::get<Replay>(jumped.events.back()).time = 1;
  pass(Part::samples, 0, faults(2));
  pass(Part::samples, 1, jumped);
  const auto warnings = observer.invalid(1, true);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].code, "uvm_clock");
  EXPECT_TRUE(warnings[0].samples.empty());
  EXPECT_EQ(values("uvm_faults"), (Values{2, 2}));
  EXPECT_EQ(values("uvm_service_time"), Values{}) << "a series has a value for every sample or is left out";
}

// end() must not throw, because a destructor calls it.
TEST_F(UvmObserverTest, ADriverThatFailsInASampleFailsTheCase) {
  observer.begin("sample", Part::samples, 0);
  script.fails = true;
  EXPECT_NO_THROW(observer.end());
  EXPECT_THROW(observer.invalid(0, true), std::runtime_error);
}

TEST_F(UvmObserverTest, FaultsOfABlockHaveTheirDeviationLeastAndMost) {
  auto taken = faults(3);  // 3 page faults in one block; the next line adds 1 in another block of the same batch
  taken.events.emplace_back(GpuFault{.gpu = 1, .address = 5 * kBlockBytes, .time = 110, .gpu_time = 60, .batch = 1});
  pass(Part::samples, 0, taken);
  pass(Part::samples, 1, faults(2));
  EXPECT_EQ(values("uvm_block_faults"), (Values{2, 2}));
  EXPECT_EQ(values("uvm_block_faults_deviation"), (Values{1, 0}));
  EXPECT_EQ(values("uvm_block_faults_least"), (Values{1, 2}));
  EXPECT_EQ(values("uvm_block_faults_most"), (Values{3, 2}));
  pass(Part::samples, 2, {});
  for (const char* part : {"", "_deviation", "_least", "_most"})
    EXPECT_EQ(values(std::string("uvm_block_faults") + part), Values{}) << "a sample without a batch has none";
}

TEST_F(UvmObserverTest, TablesHaveTheFirstThreeSamples) {
  for (std::size_t i = 0; i < 5; ++i) pass(Part::samples, i, faults(2));
  const auto tables = observer.tables();
  ASSERT_EQ(tables.size(), 1u) << "nothing moved";
  EXPECT_EQ(tables[0].name, "uvm_batches");
  EXPECT_EQ(tables[0].values.front().size(), 3u);
  for (const auto& column : tables[0].values) EXPECT_EQ(column.size(), 3u);
}

TEST_F(UvmObserverTest, EveryFaultHasARowWhereThatIsAskedFor) {
  UvmObserver every{script, UvmObserver::Watched::every_fault};
  Taken taken;
  taken.events = {
      GpuFault{.gpu = 2, .gpc = 3, .client = 4, .address = 5 * kPageBytes, .time = 300, .gpu_time = 70, .batch = 6},
      GpuFault{.access = 1, .gpu = 2, .address = 7 * kPageBytes, .time = 200, .gpu_time = 50, .batch = 6},
      Migration{.bytes = 4096, .begin = 100}};
  for (std::size_t i = 0; i < 5; ++i) {
    script.next = {{}, taken};
    every.begin("sample", Part::samples, i);
    every.end();
  }
  const auto tables = every.tables();
  ASSERT_EQ(tables.size(), 3u);
  const auto& table = tables[2];
  EXPECT_EQ(table.name, "uvm_faults");
  const auto column = [&](const std::string& name) -> const std::vector<double>& {
    const auto found = std::find(table.columns.begin(), table.columns.end(), name);
    return table.values.at(static_cast<std::size_t>(found - table.columns.begin()));
  };
  EXPECT_EQ(column("sample"), (Values{0, 0, 1, 1, 2, 2})) << "of the first three samples, in the order of taking up";
  EXPECT_EQ(column("address")[0], 7.0 * kPageBytes);
  EXPECT_EQ(column("access")[0], 1);
  EXPECT_EQ(column("gpc")[1], 3);
  EXPECT_EQ(column("client")[1], 4);
  EXPECT_EQ(column("batch")[1], 6);
  EXPECT_DOUBLE_EQ(column("written")[0], 0);
  EXPECT_DOUBLE_EQ(column("written")[1], 20e-9);
  EXPECT_DOUBLE_EQ(column("taken_up")[0], 100e-9) << "since the first event, which is the move";
}

TEST_F(UvmObserverTest, ABatchSaysWhatMovedInItWithoutATableOfMoves) {
  using Watched = UvmObserver::Watched;
  Taken taken = faults(2);
  taken.events.emplace_back(
      Migration{.cause = Cause::fault, .destination = 1, .bytes = 4096, .begin = 150, .gpu_begin = 10, .gpu_end = 30});
  for (const auto watched : {Watched::batches, Watched::moves_of_batches, Watched::moves}) {
    UvmObserver each{script, watched};
    script.next = {{}, taken};
    each.begin("sample", Part::samples, 0);
    each.end();
    const auto tables = each.tables();
    ASSERT_EQ(tables.size(), watched == Watched::moves_of_batches ? 1u : 2u);
    const auto value = [&](const std::string& name) {
      const auto found = std::find(tables[0].columns.begin(), tables[0].columns.end(), name);
      return tables[0].values.at(static_cast<std::size_t>(found - tables[0].columns.begin())).at(0);
    };
    if (watched == Watched::batches) {  // moves were not requested from the driver
      for (const char* name : {"moves", "bytes", "transfer"}) EXPECT_TRUE(std::isnan(value(name))) << name;
    } else {
      EXPECT_EQ(value("moves"), 1);
      EXPECT_EQ(value("bytes"), 4096);
      EXPECT_DOUBLE_EQ(value("transfer"), 20e-9);
    }
    const auto metrics = each.metrics();
    EXPECT_EQ(std::any_of(metrics.begin(), metrics.end(), [](const auto& m) { return m.name == "uvm_transfer_time"; }),
              watched != Watched::batches);
  }
}

TEST_F(UvmObserverTest, WhatIsNotWatchedHasNoFigure) {
  UvmObserver light{script, UvmObserver::Watched::batches};
  script.next = {{}, faults(3)};
  light.begin("", Part::samples, 0);
  light.begin("kernel", Part::samples, 0);
  light.end();
  light.end();
  std::size_t left_out = 0;
  for (const auto& series : observer.metrics()) EXPECT_TRUE(series.samples.empty());
  pass(Part::samples, 0, faults(3));
  const auto few = light.metrics(), all = observer.metrics();
  for (const auto& series : all) {
    const bool found = std::any_of(few.begin(), few.end(), [&](const auto& each) { return each.name == series.name; });
    const bool of_moves = series.name.ends_with("_bytes") || series.name == "uvm_transfer_time";
    EXPECT_NE(found, of_moves) << series.name << ": zero would be taken for measured";
    left_out += found ? 0 : 1;
  }
  EXPECT_EQ(left_out, 5u);
  EXPECT_NE(light.notes().at("uvm_source").find("without what moved"), std::string::npos);
}

TEST_F(UvmObserverTest, AGpuThatIsShortOfMemoryHasFiguresOfItsEvictions) {
  pass(Part::samples, 0, faults(1));
  EXPECT_EQ(values("uvm_evictions"), Values{}) << "where nothing was evicted there are none";
  auto evicting = faults(1);
  const auto move = [&](Cause cause, std::uint64_t block, std::uint64_t begin) {
    const bool in = cause == Cause::fault;
    evicting.events.emplace_back(Migration{.cause = cause,
                                           .source = static_cast<std::uint8_t>(in ? 0 : 1),
                                           .destination = static_cast<std::uint8_t>(in ? 1 : 0),
                                           .address = block * kBlockBytes,
                                           .bytes = kBlockBytes,
                                           .begin = begin});
  };
  move(Cause::fault, 0, 100);
  move(Cause::fault, 1, 110);
  move(Cause::eviction, 0, 120);
  move(Cause::fault, 0, 130);
  move(Cause::fault, 1, 140);
  pass(Part::samples, 1, evicting);
  EXPECT_EQ(values("uvm_eviction_bytes"), (Values{0, 1.0 * kBlockBytes}));
  EXPECT_EQ(values("uvm_evictions"), (Values{0, 1}));
  EXPECT_EQ(values("uvm_returned_blocks"), (Values{0, 1}));
  EXPECT_EQ(values("uvm_returned_bytes"), (Values{0, 1.0 * kBlockBytes}));
  EXPECT_EQ(values("uvm_discarded_bytes"), (Values{0, 1.0 * kBlockBytes}));
  EXPECT_EQ(values("uvm_eviction_age"), Values{}) << "a sample without an eviction has none";
  pass(Part::samples, 0, evicting);
  EXPECT_EQ(values("uvm_eviction_age"), (Values{0, 0}));
}

TEST_F(UvmObserverTest, TheRecordNamesTheSourceAndOthersReplays) {
  auto shared = faults(1);
  shared.foreign_replays = 4;
  pass(Part::samples, 0, shared);
  const auto notes = observer.notes();
  EXPECT_EQ(notes.at("uvm_source"), "a script");
  EXPECT_NE(notes.at("uvm_foreign_replays").find("4 replays"), std::string::npos);
}

}  // namespace
}  // namespace isthmus::harness
