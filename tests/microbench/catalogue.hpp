#pragma once

// Runs cases of the seven workloads as the program does, with small shapes.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "device/api/device.hpp"
#include "harness/measure/case/case_runner.hpp"
#include "harness/plan/plan.hpp"

namespace isthmus::microbench {

/// All cases of one workload with these settings ("axis=value"); what each came to.
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

/// A case that neither passed nor was skipped, in words; empty when all is well.
inline std::string complaint(const harness::CaseResult& result) {
  if (result.error) return *result.error;
  if (result.skipped) return "skipped: " + *result.skipped;
  if (result.verification.verdict != harness::Verdict::pass) return result.verification.detail;
  return {};
}

}  // namespace isthmus::microbench
