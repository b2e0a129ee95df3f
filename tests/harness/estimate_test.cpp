#include "harness/plan/estimate.hpp"

#include <gtest/gtest.h>

#include "harness/plan/plan.hpp"

namespace isthmus::harness {
namespace {

CaseSpec move_of(const std::string& bytes) {
  RequestTexts request{.patterns = {"moves/gpu0-gpu0/ce"}};
  request.settings = {"bytes=" + bytes};
  return plan(parse_request(request)).front();
}

TEST(Estimate, HasAsManyDigitsAsAGuessIsWorth) {
  EXPECT_EQ(about(0), "less than 1 s");
  EXPECT_EQ(about(3.4), "about 3 s");
  EXPECT_EQ(about(41), "about 40 s");
  EXPECT_EQ(about(87), "about 85 s");
  EXPECT_EQ(about(89), "about 1 min");
  EXPECT_EQ(about(200), "about 3 min");
  EXPECT_EQ(about(1234), "about 20 min");
  EXPECT_EQ(about(5300), "about 1.5 h");
  EXPECT_EQ(about(36000), "about 10 h");
}

TEST(Estimate, OfOwnReadingsGrowsWithSizeAndSamples) {
  SamplingOptions sampling;
  // An operation takes 1 s: two warm-ups, only 10 samples because they take long, and 0.4 s for page-locking.
  EXPECT_NEAR(*estimate_seconds(move_of("1000000000"), sampling), 12.5, 0.2);
  sampling.least_time = 5;
  EXPECT_NEAR(*estimate_seconds(move_of("1000000000"), sampling), 17.5, 0.2);
  sampling.samples = 3;
  sampling.warmups = 0;
  EXPECT_NEAR(*estimate_seconds(move_of("1000000000"), sampling), 3.5, 0.2);
  EXPECT_GT(*estimate_seconds(move_of("1TiB"), sampling), 1000) << "a count that was asked for is given";
  sampling.budget = 20;
  EXPECT_EQ(*estimate_seconds(move_of("1TiB"), sampling), 20);
  const CaseFootprint none;
  EXPECT_LT(*estimate_seconds(move_of("1000000000"), sampling, none), 3.2) << "nothing is page-locked";
}

TEST(Estimate, IsNoneWhereNobodyKnows) {
  const auto saxpy = plan(parse_request({.patterns = {"fixture/saxpy"}})).front();
  EXPECT_FALSE(estimate_seconds(saxpy, {}));
  EXPECT_TRUE(estimate_seconds(saxpy, {}, CaseFootprint{}));
  EXPECT_FALSE(estimate_seconds(plan(parse_request({.patterns = {"fixture/host_loop"}})).front(), {}, CaseFootprint{}));
}

TEST(Estimate, TheSumSaysWhatItLeavesOut) {
  Estimate all;
  all.add(std::nullopt);
  EXPECT_EQ(all.sentence(), "1 case");
  all.add(20);
  EXPECT_EQ(all.sentence(), "2 cases, about 20 s without 1 case of unknown length");
  all.add(10, 4);
  all.add(5, 0);  // already measured, so it adds no time
  EXPECT_EQ(all.sentence(), "6 cases, about 60 s without 1 case of unknown length");
}

}  // namespace
}  // namespace isthmus::harness
