#pragma once

// One case as one JSON object: schema/record.schema.json.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/measure/results/result.hpp"
#include "harness/record/table_file.hpp"

namespace isthmus::harness {

/// Where a rank runs.
struct RankFacts {
  std::string node;
  int local_rank = 0;
  std::string device;  ///< uuid; empty: none
  std::string cpus;    ///< logical processors that it may run on, "0-3,8"
};

/// What all records of one invocation share.
struct RunIdentity {
  std::string id;
  std::vector<std::string> command;
  int process = 1;
  std::uint64_t seed = 42;
  std::vector<RankFacts> ranks{};  ///< empty where one process runs
  std::string ranks_library{};
};

std::string new_run_id();

/// `tables` are those of the result, as they were written.
nlohmann::json record_json(const RunIdentity& run, const CaseResult& result, std::span<const TableFile> tables = {});

/// The fields of a record that say which case it is of. `chunks`: of placement `streamed`; `file`: that it reads.
nlohmann::json case_json(const CaseSpec& spec, std::uint64_t seed, std::optional<std::size_t> chunks,
                         const std::optional<InputFileFacts>& file);

/// The case that a record is of, as text: equal for records of the same case, seed, process and device.
std::string case_identity(const nlohmann::json& record);
/// Same for a case that has not run yet.
std::string case_identity(const RunIdentity& run, const CaseSpec& spec, const std::optional<device::DeviceInfo>& device,
                          std::size_t chunks);
/// Whether nothing is left to do for the case: it passed, or cannot run here for a reason that does not pass by.
bool is_settled(const nlohmann::json& record);

/// The options of a command that say how cases are measured, sorted: "--numa 0", "--samples 5".
std::vector<std::string> sampling_words(const std::vector<std::string>& command);

/// Where and with what a record was measured, in words: "node", "CPU", "commit", "compiler", "driver", "runtime". What
/// it does not say is left out.
std::map<std::string, std::string> origin_of(const nlohmann::json& record);
/// Same for what this process would measure on the device.
std::map<std::string, std::string> origin_here(const std::optional<device::DeviceInfo>& device);

}  // namespace isthmus::harness
