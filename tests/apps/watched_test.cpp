// Programs of apps/* that are among faults/*: their faults are seen, and the paper's preset is small.

#include "../emulated_machine.hpp"
#include "../microbench/observed.hpp"

namespace isthmus::microbench {
namespace {

class Watched : public device::EmulatorTest {};

TEST_F(Watched, EachPageOfASolverFaultsOnce) {
  configure("workers=1,memory=256MiB");
  for (const auto& [workload, setting] :
       {std::pair{"faults/gauss_seidel", "sweeps=2"}, {"faults/multigrid", "cycles=1"}}) {
    for (const char* prefetch : {"off", "default"}) {
      const auto result =
          observed(workload, {"n=32", setting, std::string("driver_prefetch=") + prefetch}, 1, {"managed_demand"});
      ASSERT_EQ(complaint(result), "") << workload;
      constexpr double bytes = 32 * 32 * 32 * sizeof(double);  // u and f come, u goes back; all else lies on the device
      EXPECT_EQ(value(result, "uvm_fault_bytes") + value(result, "uvm_prefetch_bytes"), 3 * bytes) << workload;
      if (prefetch == std::string("off")) {
        EXPECT_EQ(value(result, "uvm_pages"), 2 * bytes / 4096) << workload;
        EXPECT_EQ(value(result, "uvm_prefetch_bytes"), 0) << workload;
      }
    }
  }
}

TEST_F(Watched, InEveryPlacement) {
  for (const auto& [workload, setting] :
       {std::pair{"faults/fft", "batch=3"}, {"faults/gauss_seidel", "sweeps=2"}, {"faults/multigrid", "cycles=1"}}) {
    for (const auto& result : run_cases(workload, {}, {"all"}, {"n=16", setting}, {}, 1)) {
      if (result.skipped) continue;
      EXPECT_EQ(complaint(result), "") << result.spec.label();
    }
  }
}

TEST_F(Watched, PresetsAreThePapersAndTakeNoMinute) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"faults/fft", 1 << 24}, {"faults/gauss_seidel", 256}, {"faults/multigrid", 256}};  // two arrays of 128 MiB each
  for (const auto& [workload, n] : sizes) {
    harness::Request request;
    request.patterns = {workload};
    request.preset = "paper-table3";
    const auto cases = harness::plan(request);
    ASSERT_EQ(cases.size(), 1u) << workload;
    EXPECT_EQ(*cases[0].find("driver_prefetch"), harness::AxisValue("off")) << workload;
    EXPECT_EQ(*cases[0].find("n"), harness::AxisValue(n)) << workload;
  }
}

}  // namespace
}  // namespace isthmus::microbench
