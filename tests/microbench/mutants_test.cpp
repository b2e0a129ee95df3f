// Tests of mutants of the kernels, compiled from the real sources: the workloads' checks must detect the bugs.

#include "catalogue.hpp"

namespace isthmus::microbench {
namespace {

void expect_caught(const std::string& workload, const std::vector<std::string>& settings) {
  const auto results = run_cases(workload, {"direct", "async", "bulk"}, {"pinned"}, settings);
  ASSERT_EQ(results.size(), 3u);
  for (const auto& result : results) {
    // The bug shows as a wrong result, or as an error because a thread used a copy barrier before another thread had
    // initialised it.
    EXPECT_TRUE(result.verification.verdict == harness::Verdict::fail ||
                complaint(result).find("barrier") != std::string::npos)
        << result.spec.label() << " without its barriers: " << complaint(result);
  }
}

TEST(Mutants, MissingBarriersAreCaught) {
  expect_caught("microbench/conv2d", {"rows=35", "cols=133", "threads=64", "tile=16x128"});
  expect_caught("microbench/gemm", {"m=37", "n=45", "k=70", "tile=32x32x32"});
  expect_caught("microbench/gemv", {"rows=19", "cols=601", "threads=64", "tile=256"});
}

TEST(Mutants, CopiesOfOtherPagesAreCaught) {
  const auto sound = run_cases("paging/copies", {}, {}, {"bytes=300016", "page=4KiB,64KiB", "threads=1,3,16"});
  ASSERT_EQ(sound.size(), 6u);
  for (const auto& result : sound) EXPECT_EQ(complaint(result), "") << result.spec.label();
  for (const std::string workload : {"paging/copies_leave_pages_out", "paging/copies_take_the_first"}) {
    const auto results = run_cases(workload, {}, {}, {"bytes=300016", "threads=3"});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].verification.verdict, harness::Verdict::fail) << workload << ": " << complaint(results[0]);
  }
}

}  // namespace
}  // namespace isthmus::microbench
