// Tests of mutants of alloc/*, compiled from the real sources: the checks must detect allocators that return wrong
// memory.

#include "catalogue.hpp"

namespace isthmus::microbench {
namespace {

TEST(AllocMutants, BlocksThatShareAByteAreNoticed) {
  const auto results = run_cases("alloc/mmap*", {}, {}, {"bytes=64,4KiB", "at_once=5"}, {}, 1);
  ASSERT_EQ(results.size(), 4u);
  for (const auto& result : results)
    EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << result.spec.label() << complaint(result);
}

TEST(AllocMutants, MemoryOfAnotherKindIsNoticed) {
  const auto results = run_cases("alloc/managed*", {}, {}, {"bytes=4KiB", "at_once=2"}, {}, 1);
  ASSERT_EQ(results.size(), 3u);
  for (const auto& result : results) {
    // The emulator refuses a kernel or fill on page-locked memory that is not mapped, which also counts as detected.
    EXPECT_TRUE(result.verification.verdict == harness::Verdict::fail || result.error) << result.spec.label();
  }
}

TEST(AllocMutants, OthersStillPass) {
  for (const auto& result : run_cases("alloc/pageable", {}, {}, {"bytes=64", "at_once=5"}, {}, 1))
    EXPECT_EQ(complaint(result), "");
}

}  // namespace
}  // namespace isthmus::microbench
