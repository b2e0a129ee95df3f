#pragma once

// Functions that run one case while observing its page faults, as the program does with --observe uvm.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalogue.hpp"
#include "harness/measure/watch/uvm_observer.hpp"
#include "trace/uvm/source.hpp"

namespace isthmus::microbench {

inline harness::CaseResult observed(const std::string& workload, std::vector<std::string> settings, int samples = 1,
                                    std::vector<std::string> placements = {},
                                    std::optional<std::string> preset = std::nullopt) {
  const std::shared_ptr<trace::uvm::Source> source = trace::uvm::attach();
  harness::RequestTexts request;
  request.patterns = {workload};
  request.placements = std::move(placements);
  request.settings = std::move(settings);
  request.preset = std::move(preset);
  harness::RunContext context;
  context.device = device::info(0);
  context.sampling.samples = samples;
  context.observers = {{"uvm", [&] { return std::make_unique<harness::UvmObserver>(*source); }}};
  return harness::run_case(harness::plan(harness::parse_request(request)).front(), context);
}

/// Returns the case of `workload` for Table 3 of the UVM-batch paper, with the driver's prefetcher off.
inline harness::CaseSpec case_of_table3(const std::string& workload) {
  harness::RequestTexts request;
  request.patterns = {workload};
  request.preset = "paper-table3";
  const auto cases = harness::plan(harness::parse_request(request));
  EXPECT_EQ(cases.size(), 1u) << workload;
  EXPECT_EQ(*cases.at(0).find("driver_prefetch"), harness::AxisValue("off")) << workload;
  return cases.at(0);
}

/// Returns the last sample of a metric.
inline double value(const harness::CaseResult& result, const std::string& metric) {
  const auto* series = result.find(metric);
  EXPECT_NE(series, nullptr) << metric;
  return series != nullptr ? series->samples.back() : -1;
}

/// Runs a program with the preset of Table 3, at a small size, and expects the quantities that Table 3 lists.
inline void expect_table3(const std::string& workload, const std::string& size,
                          std::vector<std::string> placements = {}) {
  const auto result = observed(workload, {size}, 1, std::move(placements), "paper-table3");
  ASSERT_EQ(complaint(result), "") << workload;
  EXPECT_EQ(result.spec.preset, "paper-table3");
  EXPECT_EQ(*result.spec.find("driver_prefetch"), harness::AxisValue("off")) << workload;
  EXPECT_EQ(value(result, "uvm_prefetch_bytes"), 0) << workload;
  EXPECT_GE(value(result, "uvm_batch_blocks"), 1) << workload;
  EXPECT_GE(value(result, "uvm_block_faults"), 1) << workload;
}

}  // namespace isthmus::microbench
