// Tests of programs of apps/* that are also registered under faults/*: their page faults are counted, and the sizes of
// the paper's preset are small enough.

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
      // Size of each array in bytes. u and f are copied in and u is copied out; other arrays stay on the device.
      constexpr double bytes = 32 * 32 * 32 * sizeof(double);
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

TEST_F(Watched, HaveWhatTable3Has) {
  configure("workers=1,memory=256MiB");
  expect_table3("faults/gauss_seidel", "n=32", {"managed_demand"});
  expect_table3("faults/multigrid", "n=32", {"managed_demand"});
  // The emulator's FFT library causes no page faults, so apps/fft has no batches of page faults.
  EXPECT_EQ(complaint(observed("faults/fft", {"n=4096"}, 1, {"managed_demand"}, "paper-table3")), "");
}

TEST_F(Watched, PresetsAreThePapersAndTakeNoMinute) {  // each preset has two arrays of 128 MiB
  EXPECT_EQ(*case_of_table3("faults/fft").find("n"), harness::AxisValue(1 << 24));
  EXPECT_EQ(*case_of_table3("faults/gauss_seidel").find("n"), harness::AxisValue(256));
  EXPECT_EQ(*case_of_table3("faults/multigrid").find("n"), harness::AxisValue(256));
}

}  // namespace
}  // namespace isthmus::microbench
