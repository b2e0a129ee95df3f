#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "harness/plan/sampling.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/record/json_values.hpp"
#include "harness/record/record.hpp"

namespace isthmus::harness {

using nlohmann::json;

namespace {

json axes_json(const CaseSpec& spec, std::optional<std::size_t> chunks, const std::optional<InputFileFacts>& file) {
  json axes = json::object();
  for (const auto& [axis, value] : spec.axes)
    axes[axis] = std::visit([](const auto& each) { return json(each); }, value);
  if (chunks) axes["chunks"] = *chunks;
  if (file) axes[kInputFile] = file->axis_value();
  return axes;
}

/// Returns the identity as text. `of_case`: case_json(), or a record, which has the same fields.
std::string identity_text(const json& of_case, const json& process, const json& device, std::size_t ranks) {
  json identity{process, device, ranks};
  for (const char* field :
       {"workload", "version", "placement", "staging", "size", "preset", "axes", "seed", "emulated"})
    identity.push_back(of_case.at(field));
  return identity.dump();
}

}  // namespace

json case_json(const CaseSpec& spec, std::uint64_t seed, std::optional<std::size_t> chunks,
               const std::optional<InputFileFacts>& file) {
  return {{"workload", spec.workload->name()},
          {"version", spec.workload->description().version},
          {"emulated", is_emulated(*spec.workload)},
          {"placement", spec.placement ? json(memory::name(*spec.placement)) : json(nullptr)},
          {"staging", spec.staging ? json(name(*spec.staging)) : json(nullptr)},
          {"size", or_null(spec.size)},
          {"preset", or_null(spec.preset)},
          {"axes", axes_json(spec, chunks, file)},
          {"seed", seed}};
}

std::string case_identity(const json& record) {
  const auto& devices = record.at("devices");
  return identity_text(record, record.at("run").at("process"),
                       devices.empty() ? json(nullptr) : devices.front().at("uuid"),
                       record.contains("ranks") ? record["ranks"].at("count").get<std::size_t>() : 1);
}

std::string case_identity(const RunIdentity& run, const CaseSpec& spec, const std::optional<device::DeviceInfo>& device,
                          std::size_t chunks) {
  const bool uses_device = device && !spec.workload->description().cpu_only;
  const bool chunked = spec.placement && (*spec.placement)->chunked;
  const auto of_case =
      case_json(spec, run.seed, chunked ? std::optional(chunks) : std::nullopt, input_file_facts(spec, interrupted));
  return identity_text(of_case, run.process, uses_device ? or_null(device->uuid) : json(nullptr),
                       std::max<std::size_t>(run.ranks.size(), 1));
}

std::vector<std::string> sampling_words(const std::vector<std::string>& command) {
  // Options that determine how a case is measured, which is not part of its identity. If an option is repeated, its
  // last occurrence counts.
  static const std::map<std::string, bool> takes_value{
      {"--samples", true}, {"--min-time", true},  {"--warmups", true},       {"--budget", true},
      {"--numa", true},    {"--no-latch", false}, {"--latch-timeout", true}, {"--observe", true}};
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const auto equals = command[i].find('=');
    const auto option = takes_value.find(command[i].substr(0, equals));
    if (option == takes_value.end()) continue;
    const bool has_next = option->second && equals == std::string::npos && i + 1 < command.size();
    given[option->first] = equals != std::string::npos ? command[i].substr(equals + 1) : has_next ? command[++i] : "";
  }
  std::vector<std::string> words;
  for (const auto& [option, value] : given) words.push_back(value.empty() ? option : option + " " + value);
  return words;
}

bool is_settled(const json& record) {
  if (!record.at("error").is_null()) return false;
  for (const auto& metric : record.at("metrics")) {
    if (metric.at("stop") == "interrupted") return false;
  }
  if (!record.at("skipped").is_null()) {
    const auto kind = record.value("skip_kind", json(nullptr));
    return kind != "memory" && kind != "budget";
  }
  const auto& status = record.at("verify").at("status");
  return status == "pass" || status == "not_applicable";
}

}  // namespace isthmus::harness
