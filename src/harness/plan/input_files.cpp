#include "harness/plan/input_files.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

namespace isthmus::harness {

InputFileFacts facts_of(const InputFile& file, const std::function<bool()>& stop) {
  return {file.name(), file.bytes(), file.sha256(stop)};
}

bool reads_file(const CaseSpec& spec) {
  const auto& rule = spec.workload->description().file;
  return rule && spec.choice(rule->axis) == "file";
}

InputFile open_input_file(const CaseSpec& spec) {
  if (!reads_file(spec)) throw std::logic_error(spec.label() + " reads no file; see Workload::with_file()");
  const auto& rule = *spec.workload->description().file;
  const char* path = std::getenv(rule.variable.c_str());
  if (path == nullptr || *path == '\0')
    throw Skip(
        fmt::format("{}=file reads a file, but none is named; set {} to {}", rule.axis, rule.variable, rule.kind),
        SkipKind::not_applicable);
  return {path, rule.most_bytes};
}

std::optional<InputFileFacts> input_file_facts(const CaseSpec& spec, const std::function<bool()>& stop) {
  if (!reads_file(spec)) return std::nullopt;
  try {
    return facts_of(open_input_file(spec), stop);
  } catch (const std::runtime_error&) {  // includes Skip; the workload will report the error
    return std::nullopt;
  }
}

}  // namespace isthmus::harness
