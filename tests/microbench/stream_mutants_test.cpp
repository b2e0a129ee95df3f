// Tests of mutants of stream/*, compiled from the real sources: operations that leave work undone must be detected.

#include "catalogue.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::microbench {
namespace {

TEST(StreamMutants, AreAllCaught) {
  std::size_t checked = 0;
  for (const auto* workload : harness::find_workloads("stream/*")) {
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
