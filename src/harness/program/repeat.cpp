#include "harness/program/repeat.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

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

/// How one of --processes N knows which it is: "3:<run id>:<record>", set by the process that started it.
constexpr const char* kChildVariable = "ISTHMUS_CHILD_PROCESS";

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
  Progress progress(!quiet, std::vector<std::optional<double>>(static_cast<std::size_t>(count)));
  for (int process = 1; process <= count && !interrupted(); ++process) {
    const std::string role = fmt::format("{}:{}:{}", process, run_id, record);
    progress.begin(static_cast<std::size_t>(process - 1), "fresh process");
    const double begin = now();
    const int status = wait_for(start_again(kChildVariable, role), true);
    progress.measured(now() - begin);
    if (WIFSIGNALED(status)) {
      say(fmt::format("process {} of {} was ended by signal {}; what it measured before is in {}", process, count,
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
  for_each_record(path, run_id, [&](json record) {
    if (record.contains("run") && record["run"].value("id", "") == run_id) records.push_back(std::move(record));
  });
  return records;
}

std::string summary(const std::vector<json>& records, int count) {
  Tally tally;
  std::set<int> processes;
  for (const auto& record : records) {
    processes.insert(record.at("run").at("process").get<int>());
    const auto outcome = outcome_of(record);
    const bool failed = outcome == "FAILED" || outcome == "WRONG";
    ++(failed ? tally.failed : outcome == "skipped" ? tally.skipped : tally.passed);
  }
  const auto of = processes.size() == static_cast<std::size_t>(count) ? "" : fmt::format("{} of ", processes.size());
  return fmt::format("{} in {}{} processes", tally.text(), of, count);
}

}  // namespace isthmus::harness
