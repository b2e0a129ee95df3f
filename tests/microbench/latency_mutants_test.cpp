// Chases that stop short, compiled from the real sources: every one of them must be noticed.

#include "catalogue.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::microbench {
namespace {

TEST(LatencyMutants, AreAllCaught) {
  std::size_t checked = 0;
  for (const auto* workload : harness::find_workloads("latency/*")) {
    // As many hops as places, half of them and any number: none may end where it began.
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
