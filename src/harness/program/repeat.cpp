#include "harness/program/repeat.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "harness/output.hpp"
#include "harness/program/progress.hpp"
#include "harness/program/run_cases.hpp"
#include "harness/program/session.hpp"
#include "harness/program/table.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/ranks/process.hpp"
#include "harness/record/record_file.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

using nlohmann::json;

namespace {

/// Environment variable that tells a process of --processes N its role: "3:<run id>:<record>". The process that starts
/// it sets the variable.
constexpr const char* kChildVariable = "ISTHMUS_CHILD_PROCESS";

/// Returns the number of records of a run in the file, keyed by process.
std::map<int, std::size_t> records_of_processes(const std::string& path, const std::string& run_id) {
  std::map<int, std::size_t> counts;
  for (const auto& record : records_of_run(path, run_id)) ++counts[record.at("run").at("process").get<int>()];
  return counts;
}

/// Check that records of finished processes are still in the file.
class RecordsKept {
 public:
  RecordsKept(const std::string& path, const std::string& run_id) : path_(path), run_id_(run_id) {}

  /// Returns the number of records lost since the last call.
  std::size_t lost() {
    auto now = records_of_processes(path_, run_id_);
    std::size_t count = 0;
    for (const auto& [process, before] : known_) count += before - std::min(before, now[process]);
    known_ = std::move(now);
    return count;
  }

 private:
  const std::string &path_, &run_id_;
  std::map<int, std::size_t> known_;
};

}  // namespace

std::optional<Child> child_role() {
  const char* text = std::getenv(kChildVariable);
  if (text == nullptr) return std::nullopt;
  const std::string role = text;
  const auto first = role.find(':'), second = role.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  return Child{std::atoi(role.c_str()), role.substr(first + 1, second - first - 1), role.substr(second + 1)};
}

int run_processes(int count, const std::string& run_id, const std::string& record, bool quiet) {
  int code = exit_code::passed;
  RecordsKept kept(record, run_id);
  Progress progress(!quiet, std::vector<std::optional<double>>(static_cast<std::size_t>(count)));
  for (int process = 1; process <= count && !interrupted(); ++process) {
    const std::string role = fmt::format("{}:{}:{}", process, run_id, record);
    progress.begin(static_cast<std::size_t>(process - 1), "fresh process");
    const double begin = now();
    const int status = wait_for(start_again(kChildVariable, role), true);
    progress.measured(now() - begin);
    if (const auto lost = kept.lost(); lost > 0) {
      say(
          fmt::format("{} records of earlier processes are no longer in {}, which was removed, moved or truncated "
                      "during the run; run it again",
                      lost, record));
      code = std::max(code, exit_code::failed);
    }
    if (WIFSIGNALED(status)) {
      say(fmt::format("process {} of {} was ended by signal {}; earlier results are in {}", process, count,
                      WTERMSIG(status), record));
      code = std::max(code, exit_code::failed);
      continue;
    }
    code = std::max(code, WEXITSTATUS(status));
    if (WEXITSTATUS(status) == exit_code::interrupted || WEXITSTATUS(status) == exit_code::bad_input) break;
  }
  if (interrupted()) code = exit_code::interrupted;
  return code;
}

std::vector<json> records_of_run(const std::string& path, const std::string& run_id) {
  std::vector<json> records;
  try {
    for_each_valid_record(path, run_id, [&](const json& record) {
      if (record.at("run").at("id") == run_id) records.push_back(record);
    });
  } catch (const RecordError& error) {
    throw RecordLost(error.what());  // processes have measured already, so this is not bad input
  }
  return records;
}

std::string summary(const std::vector<json>& records, int count) {
  Tally tally;
  std::set<int> processes;
  for (const auto& record : records) {
    processes.insert(record.at("run").at("process").get<int>());
    tally.count(outcome_of(record));
  }
  const auto of = processes.size() == static_cast<std::size_t>(count) ? "" : fmt::format("{} of ", processes.size());
  return fmt::format("{} in {}{} processes", tally.text(), of, count);
}

}  // namespace isthmus::harness
