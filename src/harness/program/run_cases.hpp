#pragma once

// The cases of a run, one after the other, and a record of each.

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
  std::vector<nlohmann::json> records;  ///< that were written

  std::string text() const;  ///< "3 passed, 1 skipped, 0 failed"
  int code() const {
    if (ended_early) return exit_code::interrupted;
    return failed > 0 ? exit_code::failed : exit_code::passed;
  }
};

/// `settings`: those of --set, for what had no effect. `file` is nullptr on the ranks that write none. `process_begin`
/// is when this process began to work; `events` gets the driver's events of each case.
Tally run_cases(const std::vector<CaseSpec>& cases, const std::vector<Setting>& settings, const RunContext& context,
                const RunIdentity& identity, RecordFile* file, const SessionOptions& options, double process_begin,
                EventFile* events = nullptr);

}  // namespace isthmus::harness
