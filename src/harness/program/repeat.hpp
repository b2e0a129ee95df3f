#pragma once

// --processes N: the same run in fresh processes, one after the other, into one file.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace isthmus::harness {

/// One of them.
struct Child {
  int process = 1;
  std::string run_id, record;
};

/// Which of them this process is; nullopt where it is none.
std::optional<Child> child_role();

/// Runs this program anew as often as asked, and says now and then how far it is unless `quiet`; gives the exit code of
/// all of them.
int run_processes(int count, const std::string& run_id, const std::string& record, bool quiet);

std::vector<nlohmann::json> records_of_run(const std::string& path, const std::string& run_id);

/// "6 passed, 0 skipped, 0 failed in 3 processes", or in how many of `count` where the run ended early.
std::string summary(const std::vector<nlohmann::json>& records, int count);

}  // namespace isthmus::harness
