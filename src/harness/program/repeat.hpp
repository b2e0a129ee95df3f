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

/// Runs this program anew as often as asked; gives the exit code of all of them.
int run_processes(int count, const std::string& run_id, const std::string& record);

std::vector<nlohmann::json> records_of_run(const std::string& path, const std::string& run_id);

}  // namespace isthmus::harness
