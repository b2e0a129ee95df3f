// Tests of mutants of latency/* and accounting/*, compiled from the real sources: chases that stop too early and memory
// that is not touched must be detected.

#include "catalogue.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::microbench {
namespace {

TEST(LatencyMutants, AreAllCaught) {
  std::size_t checked = 0;
  for (const auto* workload : harness::find_workloads("latency/*")) {
    // Some numbers of hops equal the number of places in a chain, or half of it. Even then, a chase must not end where
    // it began, because a missing chase would end there as well.
    for (const auto& result : run_cases(workload->name(), {}, {}, {"bytes=4KiB", "hops=16,32,64,1000"})) {
      if (result.skipped) continue;
      ++checked;
      EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << result.spec.label() << complaint(result);
    }
  }
  EXPECT_GT(checked, 30u);
}

TEST(AccountingMutants, ThatTouchNothingAreCaught) {
  std::size_t checked = 0;
  for (const auto& result : run_cases("accounting/*/gpu0", {}, {}, {"bytes=1MiB", "touch=gpu"})) {
    if (result.skipped) continue;
    ++checked;
    EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << result.spec.label() << complaint(result);
  }
  EXPECT_GT(checked, 4u);
}

}  // namespace
}  // namespace isthmus::microbench
