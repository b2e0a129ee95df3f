#pragma once

// Loop that runs the cases of a run one after the other and records each.

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/measure/case/case_runner.hpp"
#include "harness/program/session.hpp"
#include "harness/record/record.hpp"
#include "harness/record/record_file.hpp"

namespace isthmus::harness {

struct Tally {
  int passed = 0, skipped = 0, failed = 0, interrupted = 0, resumed = 0;
  bool ended_early = false;
  std::vector<nlohmann::json> records;  ///< records that were written

  /// Counts a case by its outcome_of().
  void count(std::string_view outcome);
  std::string text() const;  ///< "3 passed, 1 skipped, 0 failed"
  int code() const {
    if (ended_early) return exit_code::interrupted;
    return failed > 0 ? exit_code::failed : exit_code::passed;
  }
};

/// Runs the cases and writes a record of each. `settings`: settings of --set; those without effect are reported.
/// `file`: nullptr on ranks that write no records. `process_begin`: time at which this process began to work. `events`
/// receives the driver's events of each case.
Tally run_cases(const std::vector<CaseSpec>& cases, const std::vector<Setting>& settings, const RunContext& context,
                const RunIdentity& identity, RecordFile* file, const SessionOptions& options, double process_begin,
                EventFile* events = nullptr);

}  // namespace isthmus::harness
