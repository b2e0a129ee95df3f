#include "harness/program/environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "device/api/device.hpp"
#include "harness/plan/input_files.hpp"
#include "harness/plan/names.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::harness {

namespace {

constexpr std::string_view kPrefix = "ISTHMUS_";

// Names, without the prefix ISTHMUS_, of all variables that anything in this project reads.
// analysis/isthmus/variables.py has the same list, and tests/python/test_variables.py compares both lists with the
// tree.
constexpr std::string_view kNames =
    "ACCOUNT BACKEND BENCH BUILDS CHILD_PROCESS CUPTI CUPTI_OUTPUT DATA DWT2D EMULATOR FRESH_PROCESS GIT "
    "GRAPH HOST_MEMORY HOTSPOT INJECT JOB_SHARING LIBRARIES LOG_LINES MUTANT NETWORK NN NVML OWN_PYTHON "
    "PARTITION PROFILER REQUIRE_GPU RESULTS SCHEMA SHARE SPACK_BUILTIN SPACK_SCOPE SRAD STAGES_GO_ON "
    "STRESS_SECONDS SYSTEM TEST_BENCH TIDY_CACHE TRIALS UVM UVM_LIBRARY UVM_PARENT UVM_TRACE WATCHDOG "
    "WHERE WRONG_RANK";

/// Names that environment modules of Spack, Lmod and EasyBuild set for any package.
constexpr std::string_view kOfModules = "BASE BIN DIR DOC HOME INC INCLUDE LIB PATH PREFIX ROOT VERSION";

std::vector<std::string> known_variables() {
  auto known = mapped(split(kNames, ' '), [](const std::string& name) { return std::string(kPrefix) + name; });
  if (device::backend() != device::Backend::emulator) std::erase(known, "ISTHMUS_EMULATOR");
  for (const auto* workload : all_workloads()) {
    if (const auto& file = workload->description().file) known.push_back(file->variable);
  }
  return known;
}

std::string upper(std::string_view text) {
  std::string changed(text);
  std::ranges::transform(changed, changed.begin(), [](unsigned char c) { return std::toupper(c); });
  return changed;
}

/// Returns whether the part before the first _ is ISTHMUS or similar to it.
bool looks_like_ours(const std::string& name) {
  const auto end = name.find('_');
  if (end == std::string::npos) return false;
  const std::string prefix[] = {std::string(kPrefix.substr(0, kPrefix.size() - 1))};
  const auto start = upper(name).substr(0, end);
  return start.size() + 2 >= prefix[0].size() && suggestion(start, prefix).starts_with("did you mean");
}

}  // namespace

std::vector<std::string> unread_variables(const char* const* environment) {
  const auto known = known_variables(), of_modules = split(kOfModules, ' ');
  std::vector<std::string> unread;
  for (; *environment != nullptr; ++environment) {
    const std::string_view word = *environment;
    const std::string name(word.substr(0, word.find('=')));
    if (!looks_like_ours(name) || contains(known, name)) continue;
    if (!contains(of_modules, upper(name).substr(name.find('_') + 1))) unread.push_back(name);
  }
  std::ranges::sort(unread);
  return unread;
}

std::string unread_variables_sentence() {
  const auto unread = unread_variables(environ);
  if (unread.empty()) return "";
  const auto known = known_variables();
  const auto named = mapped(unread, [&](const std::string& name) {
    const auto meant = suggestion(upper(name), known);
    return meant.starts_with("did you mean") ? fmt::format("{} ({})", name, meant) : name;
  });
  return fmt::format("nothing reads the environment variable{} {}; correct or unset {}", named.size() > 1 ? "s" : "",
                     join(named, ", "), named.size() > 1 ? "them" : "it");
}

namespace {

bool is_set(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr && *value != '\0';
}

/// Returns the workloads that read a file, keyed by the variable that names the file.
std::map<std::string, std::vector<const Workload*>> readers_of_files() {
  std::map<std::string, std::vector<const Workload*>> readers;
  for (const auto* workload : all_workloads()) {
    if (const auto& file = workload->description().file) readers[file->variable].push_back(workload);
  }
  return readers;
}

std::string unused_file(const std::string& variable, const std::vector<const Workload*>& readers,
                        const std::vector<CaseSpec>& cases) {
  for (const auto& spec : cases) {
    if (!contains(readers, spec.workload)) continue;
    const auto& axis = spec.workload->description().file->axis;
    return fmt::format(
        "{} is set, but no case of this run has {}=file, so the file is not read; add --set {}=file, or unset the "
        "variable",
        variable, axis, axis);
  }
  return fmt::format("{} is set, but this run has no workload that reads it (as {} does); unset it", variable,
                     readers.front()->name());
}

}  // namespace

std::vector<std::string> unused_variables(const std::vector<CaseSpec>& cases, const SessionOptions& options) {
  std::vector<std::string> sentences;
  for (const auto& [variable, readers] : readers_of_files()) {
    const auto reads = [&](const CaseSpec& spec) { return contains(readers, spec.workload) && reads_file(spec); };
    if (is_set(variable) && std::ranges::none_of(cases, reads))
      sentences.push_back(unused_file(variable, readers, cases));
  }
  if (is_set("ISTHMUS_UVM") && options.observers.empty())
    sentences.push_back(
        "ISTHMUS_UVM is set, but nothing observes page faults in this run; add --observe uvm, or unset it");
  return sentences;
}

}  // namespace isthmus::harness
