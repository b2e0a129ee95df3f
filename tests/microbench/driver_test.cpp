// Tests of driver/*, sampled as on a real device. On an emulated device, the harness would take only one sample,
// without batches.

#include <algorithm>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "harness/measure/case/host.hpp"
#include "harness/plan/workloads.hpp"
#include "harness/ranks/interrupt.hpp"

namespace isthmus::microbench {
namespace {

using namespace harness;

/// Returns the default case of each workload that matches `pattern`, except driver/context, which would start this test
/// program again.
std::vector<CaseSpec> cases_of(const std::string& pattern) {
  RequestTexts request;
  request.patterns = {pattern};
  auto cases = plan(parse_request(request));
  std::erase_if(cases, [](const auto& spec) { return spec.workload->name() == "driver/context"; });
  return cases;
}

CaseResult run_as_on_a_device(const CaseSpec& spec) {
  SamplingOptions sampling;
  sampling.samples = 3;
  CaseResult result;
  result.spec = spec;
  Team team(alone(), interrupted);
  CaseState state(spec, device::info(0), 42, sampling, result, team);
  state.emulated = false;
  Host host(state);
  Case c(host);
  spec.workload->description().function(c);
  result.verification = state.verifier.outcome();
  return result;
}

int batch_of(const CaseResult& result, const std::string& name) {
  const auto found =
      std::find_if(result.metrics.begin(), result.metrics.end(), [&](const auto& m) { return m.name == name; });
  return found == result.metrics.end() ? 0 : found->batch;
}

class DriverCosts : public device::OnEmulatedMachine {};

TEST_P(DriverCosts, EveryMetricHasItsSamples) {
  for (const auto& spec : cases_of("driver/*")) {
    const auto result = run_as_on_a_device(spec);
    std::vector<std::string> names;
    for (const auto& metric : result.metrics) {
      names.push_back(metric.name);
      EXPECT_EQ(metric.samples.size(), 3u) << spec.label() << " " << metric.name;
      for (const double value : metric.samples) EXPECT_GT(value, 0) << spec.label() << " " << metric.name;
    }
    EXPECT_EQ(names, spec.workload->description().metrics) << spec.label();
    EXPECT_NE(result.verification.verdict, Verdict::fail) << spec.label();
  }
}

TEST_P(DriverCosts, ShortCallsAreReadInBatches) {
  const auto event = run_as_on_a_device(cases_of("driver/event").front());
  EXPECT_GT(batch_of(event, "query"), 1);
  EXPECT_GT(batch_of(event, "create"), 1);
  EXPECT_EQ(batch_of(event, "create"), batch_of(event, "destroy"));
  const auto graph = run_as_on_a_device(cases_of("driver/graph").back());
  EXPECT_EQ(graph.spec.integer("nodes"), 256);
  EXPECT_EQ(batch_of(graph, "device_per_node"), 256);
}

INSTANTIATE_TEST_SUITE_P(Emulator, DriverCosts, testing::Values("warp=32", "warp=64,order=reverse"),
                         [](const auto& information) { return information.index == 0 ? "Warp32" : "Warp64Reversed"; });

}  // namespace
}  // namespace isthmus::microbench
