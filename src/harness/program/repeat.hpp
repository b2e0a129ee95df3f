#pragma once

// --processes N: the same run in N fresh processes, one after the other, with one record file.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace isthmus::harness {

/// Role of a process in a run with --processes.
struct Child {
  int process = 1;
  std::string run_id, record;
};

/// Returns the role of this process; nullopt if it was not started by a run with --processes.
std::optional<Child> child_role();

/// Runs this program `count` times in fresh processes and returns the exit code for all of them. Reports progress now
/// and then unless `quiet`.
int run_processes(int count, const std::string& run_id, const std::string& record, bool quiet);

std::vector<nlohmann::json> records_of_run(const std::string& path, const std::string& run_id);

/// Returns "6 passed, 0 skipped, 0 failed in 3 processes", or "in 2 of 3 processes" if the run ended early.
std::string summary(const std::vector<nlohmann::json>& records, int count);

}  // namespace isthmus::harness
