// Tests of mutants of fault/*, compiled from the real sources: the check of the timed touches must detect wrong page
// faults.

#include "catalogue.hpp"
#include "emulator/emulator.hpp"
#include "harness/plan/registry.hpp"
#include "planted.hpp"

namespace isthmus::microbench {
namespace {

TEST(FaultMutants, AreAllCaught) {
  emulator::configure(emulator::parse("integrated=1,pageable_access=1"));
  std::size_t checked = 0;
  for (const auto* workload : harness::find_workloads("fault/*")) {
    const bool on_gpu = workload->name().find("gpu") != std::string::npos;
#if defined(MUTANT_NO_RENEWAL)
    if (on_gpu) continue;  // the emulator's managed memory is always present; the CPU's cases cover the shared code
#endif
    if (!on_gpu && planted("NO_KERNEL")) continue;
    // On a GPU, CPU threads touch pages only for the prefaulted events.
    if (on_gpu && planted("LAST_PAGE") && workload->name().find("prefaulted") == std::string::npos) continue;
    // These bugs leave part of the region untouched. In a file, the kernel maps neighbouring pages as well, which hides
    // that.
    if (workload->name() == "fault/cpu/file") continue;
    for (const auto& result : run_cases(
             workload->name(), {}, {},
             on_gpu ? std::vector<std::string>{"memory=all"} : std::vector<std::string>{"threads=1"}, {"tiny"}, 2)) {
      if (result.skipped) continue;
      ++checked;
      EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << result.spec.label() << complaint(result);
    }
  }
  EXPECT_GE(checked, 3u);
}

}  // namespace
}  // namespace isthmus::microbench
