// Tests of mutants of faults/*, compiled from the real sources: the check of each sample must detect wrong accesses.

#include "catalogue.hpp"
#include "emulator/emulator.hpp"

namespace isthmus::microbench {
namespace {

TEST(FaultsMutants, AreAllCaught) {
  emulator::configure(emulator::parse("workers=1,devices=2"));
  std::size_t checked = 0;
  for (const char* workload : {"faults/regular", "faults/random", "faults/strided", "faults/latency", "faults/peers"}) {
    const bool latency = std::string(workload) == "faults/latency", peers = std::string(workload) == "faults/peers";
    for (const char* access : {"read", "write", "atomic"}) {
      if ((latency && std::string(access) != "read") || (peers && std::string(access) == "atomic")) continue;
      std::vector<std::string> settings{"bytes=2MiB"};
      if (!latency)
        settings.insert(settings.end(),
                        {std::string("access=") + access, peers ? "touching=both" : "threads_per_page=3"});
      for (const auto& result : run_cases(workload, {}, {}, settings, {}, 2)) {
        ++checked;
        EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << result.spec.label() << " " << access;
      }
    }
  }
  EXPECT_EQ(checked, 9u + 3u + 2u);
}

}  // namespace
}  // namespace isthmus::microbench
