// Transfers that lose bytes, compiled from the real sources: every one of them must be noticed.

#include "catalogue.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::microbench {
namespace {

TEST(TransferMutants, AreAllCaught) {
  std::size_t checked = 0;
  for (const auto* workload : harness::find_workloads("transfer/*")) {
    // The runtime's own blocking copy is what checks the others, and the host follows a chain with nothing to lose.
    if (workload->name().ends_with("/runtime") || workload->name() == "transfer/gpu0-managed/fault-latency") continue;
    for (const auto& result : run_cases(workload->name(), {}, {}, {}, {"tiny"})) {
      if (result.skipped) continue;
      ++checked;
      EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << result.spec.label() << complaint(result);
    }
  }
  EXPECT_GT(checked, 40u);
}

}  // namespace
}  // namespace isthmus::microbench
