#pragma once

// Functions that run cases as the program does, for tests with small shapes.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "device/api/device.hpp"
#include "harness/measure/case/case_runner.hpp"
#include "harness/plan/plan.hpp"

namespace isthmus::microbench {

/// Runs all cases of the workloads that match `workload`, with these settings ("axis=value"). Returns their results.
inline std::vector<harness::CaseResult> run_cases(const std::string& workload, const std::vector<std::string>& stagings,
                                                  const std::vector<std::string>& placements,
                                                  std::vector<std::string> settings,
                                                  const std::vector<std::string>& sizes = {},
                                                  std::optional<int> samples = std::nullopt) {
  harness::RequestTexts request;
  request.patterns = {workload};
  request.stagings = stagings;
  request.placements = placements;
  request.settings = std::move(settings);
  request.sizes = sizes;
  harness::RunContext context;
  context.device = device::info(0);
  context.sampling.samples = samples;
  if (samples) context.sampling.warmups = 0;
  std::vector<harness::CaseResult> results;
  for (const auto& spec : harness::plan(harness::parse_request(request)))
    results.push_back(harness::run_case(spec, context));
  return results;
}

/// Returns why a case did not pass: its error, skip reason or verification failure. Returns "" if it passed.
inline std::string complaint(const harness::CaseResult& result) {
  if (result.error) return *result.error;
  if (result.skipped) return "skipped: " + *result.skipped;
  if (result.verification.verdict != harness::Verdict::pass) return result.verification.detail;
  return {};
}

}  // namespace isthmus::microbench
