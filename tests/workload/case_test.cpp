// Tests of Case and Sampling with a host that only records its calls. The harness is not linked.

#include "workload/case.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "workload/registration.hpp"
#include "workload/team.hpp"

namespace isthmus::workload {
namespace {

/// Ranks of a run with only one rank.
class OneRank final : public Ranks {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int local_rank() const noexcept override { return 0; }
  int local_size() const noexcept override { return 1; }
  std::string library() const override { return "none"; }
  void barrier() override {}
  std::vector<std::string> gather(std::string_view mine) override { return {std::string(mine)}; }
  void send(int, const std::byte*, std::size_t) override { throw std::logic_error("alone"); }
  void receive(int, std::byte*, std::size_t) override { throw std::logic_error("alone"); }
  void exchange(std::span<const Message>) override {}
  std::optional<std::string> refuses_gpu_memory() const override { return std::nullopt; }
  void abort(int) noexcept override { std::abort(); }
};

/// Host that records its calls. A timer can measure times of at least 1e-4 seconds.
class FakeHost final : public CaseHost, public BufferAddresses {
 public:
  explicit FakeHost(const CaseSpec& spec) : spec_(spec) {}

  const CaseSpec& spec() const override { return spec_; }
  void consult(std::string_view setting) const override { consulted.emplace(setting); }
  std::uint64_t seed() const override { return 7; }
  const device::DeviceInfo* device() const override { return nullptr; }
  const InputFile& input_file() override { throw Skip("no file is named"); }
  Declarations& declarations() override { return declared; }
  const BufferAddresses& addresses() const override { return *this; }
  std::byte* device(std::size_t) const override { return nullptr; }
  std::byte* host(std::size_t) const override { return nullptr; }
  bool measured() const override { return measured_; }
  std::shared_ptr<const void> shared_input(const std::string& name, const MakeShared& make) override {
    ++made[name];
    return make();
  }
  void add(ElementCheck check) override { elements.push_back(std::move(check)); }
  void add(OwnCheck check) override { own.push_back(std::move(check)); }
  void add(SameCheck check) override { same.push_back(std::move(check)); }
  void kernel(device::KernelInfo, const device::LaunchShape&) override {}
  void fallback(std::string) override {}
  void note(const std::string&, std::string) override {}
  void warn(std::string, std::string) override {}
  void measure(Control, std::function<void(Run&)>, const PagedBuffers&) override { measured_ = true; }
  void needs(std::size_t, std::size_t) override {}
  void once(Metric metric, double value) override { timers[metric.name] = metric.timer, values[metric.name] = value; }
  device::Stream& stream() override { throw std::logic_error("no stream"); }
  bool emulated() const override { return emulated_; }
  int numa_node() const override { return -1; }
  Team& team() override { return team_; }
  void sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
              const std::function<std::vector<double>()>& body) override {
    prepare();
    const auto taken = body();
    for (std::size_t i = 0; i < metrics.size(); ++i) values[metrics[i].name] = taken.at(i);
  }
  void limit(int, int) override {}
  bool interrupted() const override { return interrupted_; }
  void end_if_over_budget(std::string_view done) const override { asked_for_budget_after = done; }
  void batch(int operations) override { batch_ = operations; }
  void invalidate(std::string code, std::string) override { invalid = code; }
  bool latch() override { return true; }
  double latch_timeout() const override { return 5; }
  double least_seconds(std::string_view) const override { return 1e-4; }
  int largest_batch() const override { return 128; }

  Declarations declared;
  std::map<std::string, int> made;
  std::vector<ElementCheck> elements;
  std::vector<OwnCheck> own;
  std::vector<SameCheck> same;
  std::map<std::string, double> values;
  std::map<std::string, std::string> timers;
  std::string invalid;
  int batch_ = 0;
  bool measured_ = false, emulated_ = false, interrupted_ = false;
  mutable std::set<std::string, std::less<>> consulted;
  mutable std::string asked_for_budget_after;

 private:
  const CaseSpec& spec_;
  OneRank rank_;
  Team team_{rank_, [] { return false; }};
};

class CaseTest : public testing::Test {
 protected:
  CaseTest() {
    spec.workload = &workload;
    spec.placement = memory::parse_placement("pinned");
    spec.axes = {{"n", std::int64_t{1000}}, {"none", std::int64_t{0}}, {"order", std::string("random")}};
  }
  Workload workload{"test/case", [](Case&) {}};
  CaseSpec spec;
  FakeHost host{spec};
  Case c{host};
};

TEST_F(CaseTest, GivesWhatWasAskedForAndNotesThatItWasRead) {
  EXPECT_EQ(c.integer("n"), 1000);
  EXPECT_EQ(c.choice("order"), "random");
  EXPECT_EQ(c.seed(), 7u);
  EXPECT_EQ(host.consulted, (std::set<std::string, std::less<>>{"--seed", "n", "order"}));
  EXPECT_THROW(c.extent("none"), Skip);
  EXPECT_THROW(c.integer("order"), std::logic_error);
  EXPECT_THROW(c.integer("other"), std::logic_error);
  EXPECT_THROW(c.staging(), std::logic_error);
  EXPECT_THROW(c.device(), Skip);
}

TEST_F(CaseTest, DeclaresBuffersOnceAndBeforeMeasuring) {
  const auto x = c.input<float>("x", 10, [](std::size_t i) { return static_cast<float>(i); });
  c.output_matrix<double>("y", 3, 5);
  ASSERT_EQ(host.declared.buffers.size(), 2u);
  EXPECT_EQ(x.index(), 0u);
  EXPECT_EQ(host.declared.buffers[0].spec.bytes, 40u);
  EXPECT_EQ(host.declared.buffers[1].shape.pitch, 16u);  // in elements: 16 doubles are 128 bytes
  std::vector<float> filled(4, -1);
  host.declared.buffers[0].fill(reinterpret_cast<std::byte*>(filled.data()), 6, 10);
  EXPECT_EQ(filled, (std::vector<float>{6, 7, 8, 9}));
  EXPECT_THROW(c.output<float>("x", 1), std::logic_error);
  EXPECT_THROW(c.output<float>("empty", 0), Skip);
  c.measure(Control::queued, [](workload::Run&) {});
  EXPECT_THROW(c.output<float>("late", 1), std::logic_error);
  EXPECT_THROW(c.chunks(2), std::logic_error);
  EXPECT_THROW(c.measure(Control::queued, [](workload::Run&) {}), std::logic_error);
}

TEST_F(CaseTest, ASourceNeedsTwoMemories) {
  const auto fill = [](std::size_t) { return 1.0f; };
  EXPECT_NO_THROW(c.host_source<float>("parts", 8, fill));
  spec.placement = memory::parse_placement("mapped");
  EXPECT_THROW(c.host_source<float>("others", 8, fill), Skip);
}

TEST_F(CaseTest, SharedInputsAreMadeWhenTheyAreLookedAtAndOnce) {
  const auto text = c.shared<std::string>("text", 3, [] { return std::string("abc"); });
  EXPECT_TRUE(host.made.empty());
  EXPECT_EQ(*text, "abc");
  EXPECT_EQ(text->size(), 3u);
  EXPECT_EQ(host.made, (std::map<std::string, int>{{"text", 1}}));
  EXPECT_THROW(c.shared<int>("text", 4, [] { return 1; }), std::logic_error);
}

TEST_F(CaseTest, ChecksAreOfWhatTheHostHas) {
  const auto out = c.output<int>("out", 4);
  const auto scratch = c.scratch<int>("scratch", 4);
  c.verify(out, [](std::size_t i) { return static_cast<int>(i); }, {});
  ASSERT_EQ(host.elements.size(), 1u);
  const int three = 3;
  const auto both = host.elements[0].compare(3, reinterpret_cast<const std::byte*>(&three));
  EXPECT_EQ(both.first, both.second);
  c.verify_same(out);
  EXPECT_EQ(host.same.at(0).buffer_name, "out");
  EXPECT_THROW(c.verify_same(scratch), std::logic_error);
  c.verify("error", [] { return 0.5; }, 1);
  EXPECT_EQ(host.own.at(0).error(), 0.5);
}

TEST_F(CaseTest, IntegersBeyondADoublesPrecisionAreToldApart) {
  const auto out = c.output<std::uint64_t>("out", 1);
  const std::uint64_t expected = (std::uint64_t{1} << 60) + 1, wrong = expected - 1;
  c.verify(out, [=](std::size_t) { return expected; }, {});
  const auto both = host.elements.at(0).compare(0, reinterpret_cast<const std::byte*>(&wrong));
  EXPECT_NE(both.first, both.second);
}

TEST_F(CaseTest, WhatIsSeenIsNotTimed) {
  c.report(time_metric("moved", "clock"), 3);
  c.once(time_metric("first", "clock"), 4);
  EXPECT_EQ(host.timers, (std::map<std::string, std::string>{{"first", "clock"}, {"moved", "none"}}));
}

TEST_F(CaseTest, SamplingPassesOnWhatIsSound) {
  auto sampling = c.sampling();
  int prepared = 0;
  sampling.sample(
      {time_metric("there", "clock"), time_metric("back", "clock")}, [&] { ++prepared; },
      [&] {
        sampling.batch(3);
        sampling.invalidate("odd", "it is odd");
        return std::vector{1.0, 2.0};
      });
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(host.values, (std::map<std::string, double>{{"back", 2}, {"there", 1}}));
  EXPECT_EQ(host.batch_, 3);
  EXPECT_EQ(host.invalid, "odd");
  EXPECT_THROW(sampling.sample(std::vector<Metric>{}, [] { return std::vector<double>{}; }), std::logic_error);
  EXPECT_THROW(sampling.batch(0), std::logic_error);
  EXPECT_NO_THROW(sampling.end_if_interrupted());
  host.interrupted_ = true;
  EXPECT_THROW(sampling.end_if_interrupted(), Interrupted);
}

TEST_F(CaseTest, ABatchIsAsLongAsItsTimerNeeds) {
  auto sampling = c.sampling();
  const auto seconds_of = [](int n) { return 1e-6 * n; };
  const int times = sampling.batch_for("clock", 1'000'000, seconds_of);
  EXPECT_GE(seconds_of(times), 2e-4);
  EXPECT_LE(seconds_of(times), 1e-3);
  EXPECT_EQ(host.asked_for_budget_after, "finding a batch");
  EXPECT_EQ(sampling.batch_for("clock", 10, seconds_of), 10);
  host.emulated_ = true;
  EXPECT_EQ(sampling.batch_for("clock", 1'000'000, seconds_of), 1);
}

}  // namespace
}  // namespace isthmus::workload
