// Tests of mutants of atomics/*, compiled from the real sources: each lost update and wrong answer must be detected.

#include "catalogue.hpp"
#include "harness/plan/registry.hpp"
#include "microbench/atomics/host_updates.hpp"

namespace isthmus::microbench {

std::string atomics::host_instruction(Type) {
  return "unknown: nobody has read this program";
}
std::string atomics::device_instruction(Type, bool) {
  return "unknown: nobody has read this program";
}

namespace {

TEST(AtomicsMutants, AreAllCaught) {
  std::size_t checked = 0;
  for (const auto* workload : harness::find_workloads("atomics/*")) {
    for (const auto& result : run_cases(workload->name(), {}, {}, {}, {"tiny"})) {
      if (result.skipped) continue;
      ++checked;
      EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << result.spec.label() << complaint(result);
    }
  }
  EXPECT_GT(checked, 15u);
}

}  // namespace
}  // namespace isthmus::microbench
