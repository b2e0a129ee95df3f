#include "harness/program/progress.hpp"

#include <gtest/gtest.h>

namespace isthmus::harness {
namespace {

TEST(TimeLeft, FollowsTheEstimatesAndHowFarTheyWereOff) {
  TimeLeft left({10, 20, 30});
  EXPECT_EQ(left.seconds(), 60);
  left.begin(0);
  left.measured(5);  // half of the estimate
  left.begin(1);
  EXPECT_EQ(left.seconds(), 25);
  left.begin(2);  // the second case was skipped
  EXPECT_EQ(left.seconds(), 15);
}

TEST(TimeLeft, TakesTheMeanWhereThereIsNoEstimate) {
  TimeLeft left({std::nullopt, std::nullopt, 8});
  EXPECT_FALSE(left.seconds());
  left.begin(0);
  left.measured(2);
  left.begin(1);
  EXPECT_EQ(left.seconds(), 10);
  left.measured(6);
  left.begin(2);
  EXPECT_EQ(left.seconds(), 8);
}

std::string log_of(double every, bool wanted = true) {
  testing::internal::CaptureStderr();  // so stderr is not a terminal
  {
    Progress progress(wanted, {2, 2}, every);
    progress.begin(0, "first");
    progress.measured(3);
    progress.begin(1, "second");
  }
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, IsALineNowAndThenInALog) {
  EXPECT_EQ(log_of(0), "isthmus-bench: [1/2] first, about 4 s left\nisthmus-bench: [2/2] second, about 3 s left\n");
  EXPECT_EQ(log_of(60), "");
  EXPECT_EQ(log_of(0, false), "");
}

}  // namespace
}  // namespace isthmus::harness
