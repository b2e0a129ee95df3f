// Tests of mutants of transfer/*, compiled from the real sources: each transfer that loses bytes must be detected.

#include "catalogue.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::microbench {
namespace {

TEST(TransferMutants, AreAllCaught) {
  std::size_t checked = 0;
  for (const auto* workload : harness::find_workloads("transfer/*")) {
    // Two workloads are exempt: the runtime's blocking copy, because it is used to check the others, and the host's
    // chase, because it does not move a given number of bytes.
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
