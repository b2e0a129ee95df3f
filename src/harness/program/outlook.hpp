#pragma once

// What a run would do, without doing any of it.

#include <optional>
#include <string>
#include <vector>

#include "harness/measure/case_runner.hpp"

namespace isthmus::harness {

/// Seconds, as far as they are known without declaring the case.
std::optional<double> estimate_of(const CaseSpec& spec, const SamplingOptions& sampling);

/// "120 cases, about 3 min", as far as that is known beforehand.
std::string outlook(const std::vector<CaseSpec>& cases, const SamplingOptions& sampling, int processes, bool resume);

/// --dry-run: prints what each case needs and how long it takes.
void dry_run(const std::vector<CaseSpec>& cases, const RunContext& context, int processes);

}  // namespace isthmus::harness
