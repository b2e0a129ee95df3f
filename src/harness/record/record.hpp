#pragma once

// Record of one case: a JSON object that schema/record.schema.json describes.

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

/// Place where a rank runs.
struct RankFacts {
  std::string node;
  int local_rank = 0;
  std::string device;  ///< UUID; empty if the rank uses no device
  std::string cpus;    ///< logical processors that the rank may run on, such as "0-3,8"
};

/// Data that all records of one run share.
struct RunIdentity {
  std::string id;
  std::vector<std::string> command;
  int process = 1;
  std::uint64_t seed = 42;
  std::vector<RankFacts> ranks{};  ///< empty for a single process
  std::string ranks_library{};
};

std::string new_run_id();

/// Returns the record of a result. `tables`: files to which the result's tables were written.
nlohmann::json record_json(const RunIdentity& run, const CaseResult& result, std::span<const TableFile> tables = {});

/// Returns the fields of a record that identify its case. `chunks`: number of chunks of placement `streamed`; `file`:
/// the file that the case reads.
nlohmann::json case_json(const CaseSpec& spec, std::uint64_t seed, std::optional<std::size_t> chunks,
                         const std::optional<InputFileFacts>& file);

/// Returns the identity of a record's case as text: equal for records of the same case, seed, process and device.
std::string case_identity(const nlohmann::json& record);
/// Returns the identity of a case that has not run yet.
std::string case_identity(const RunIdentity& run, const CaseSpec& spec, const std::optional<device::DeviceInfo>& device,
                          std::size_t chunks);
/// Returns whether the case is done: it passed, or it cannot run here for a permanent reason.
bool is_settled(const nlohmann::json& record);

/// Returns the options of a command that affect how cases are measured, sorted, such as "--numa 0", "--samples 5".
std::vector<std::string> sampling_words(const std::vector<std::string>& command);

/// Returns the origin of a record: facts keyed by "node", "CPU", "commit", "compiler", "driver" and "runtime". Facts
/// that the record lacks are omitted.
std::map<std::string, std::string> origin_of(const nlohmann::json& record);
/// Returns the origin of records that this process would write for measurements on the device.
std::map<std::string, std::string> origin_here(const std::optional<device::DeviceInfo>& device);

}  // namespace isthmus::harness
