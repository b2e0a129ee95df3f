#include "harness/measure/results/stopping.hpp"

#include <gtest/gtest.h>

#include "harness/measure/case/case_runner.hpp"
#include "workload/registration.hpp"

namespace isthmus::harness {
namespace {

Series series_of(std::vector<double> samples) {
  Series series;
  series.samples = std::move(samples);
  return series;
}

class EndWhenSettled : public testing::Test {
 protected:
  std::optional<Stop> after(std::size_t taken, double seconds = 0.1, bool over_budget = false, bool emulated = false) {
    return end_when_settled({.taken = taken,
                             .most = sampling.samples.value_or(sampling.most_samples),
                             .seconds = seconds,
                             .least_time = sampling.least_time.value_or(0),
                             .over_budget = over_budget,
                             .emulated = emulated,
                             .sampling = sampling,
                             .series = {&series, 1}});
  }
  SamplingOptions sampling;
  Series series = series_of({1, 2, 3, 4});  // samples differ too much for the median to be settled
};

TEST_F(EndWhenSettled, GoesOnUntilTheMedianIsSettledOrSamplesAreUsedUp) {
  EXPECT_EQ(after(4), std::nullopt);
  EXPECT_EQ(after(30), Stop::samples);
  series = series_of(std::vector<double>(12, 1.0));
  EXPECT_EQ(after(12), Stop::interval);
  series.invalid = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(after(12), std::nullopt);  // one valid sample is not enough
}

TEST_F(EndWhenSettled, TakesFewerOfWhatTakesLongAndMoreWhereSecondsAreAsked) {
  EXPECT_EQ(after(10, 2.5), Stop::samples);
  sampling.least_time = 5;
  series = series_of(std::vector<double>(12, 1.0));
  EXPECT_EQ(after(40, 2.5), std::nullopt);
  EXPECT_EQ(after(40, 5), Stop::interval);
}

TEST_F(EndWhenSettled, AsManyAsWereAskedFor) {
  sampling.samples = 5;
  series = series_of(std::vector<double>(4, 1.0));
  EXPECT_EQ(after(4), std::nullopt);
  EXPECT_EQ(after(5), Stop::samples);
  EXPECT_EQ(after(4, 0.1, true), Stop::budget);
  EXPECT_EQ(after(4, 0.1, false, true), std::nullopt);
}

TEST_F(EndWhenSettled, EmulatedTimesNeedNoSecondSample) {
  EXPECT_EQ(after(1, 0.1, false, true), Stop::emulated);
}

TEST(StoppingRuleTest, ACaseTakesARuleOfOnesOwn) {
  const auto workload =
      workload::Workload(
          "test/stopping",
          [](workload::Case& c) { c.sampling().sample(workload::time_metric("step", "clock"), [] { return 1.0; }); })
          .cpu_only()
          .unverified("it is a test");
  CaseSpec spec;
  spec.workload = &workload;
  RunContext context;
  context.stopping_rule = [](const SamplesSoFar& so_far) {
    return so_far.taken == 3 ? std::optional(Stop::interval) : std::nullopt;
  };
  const auto result = run_case(spec, context);
  ASSERT_EQ(result.error, std::nullopt);
  ASSERT_EQ(result.metrics.size(), 1u);
  EXPECT_EQ(result.metrics[0].samples.size(), 3u);
  EXPECT_EQ(result.metrics[0].stop, Stop::interval);
}

}  // namespace
}  // namespace isthmus::harness
