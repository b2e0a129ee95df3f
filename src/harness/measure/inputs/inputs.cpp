#include "harness/measure/inputs/inputs.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

namespace isthmus::harness {

std::string inputs_name(const CaseSpec& spec, std::uint64_t seed, const std::optional<InputFileFacts>& file) {
  const auto& description = spec.workload->description();
  auto name = fmt::format("{} version={} seed={}", spec.workload->name(), description.version, seed);
  for (const auto& [axis, value] : spec.axes) {
    const auto* declared = description.find_axis(axis);
    const bool how = declared == nullptr || declared->how;  // axes that placements add do not change inputs
    const bool written = axis == description.file_phase && writes_input(spec);
    if (!how) name += fmt::format(" {}={}", axis, written ? "generated" : to_text(value));
  }
  if (file) name += fmt::format(" {}={}", kInputFile, file->axis_value());
  return name;
}

namespace {

struct Kept {
  std::recursive_mutex lock;  // ranks may be threads; code that makes an input may request another
  std::string inputs;
  std::map<std::string, std::shared_ptr<const void>> made;
};

Kept& kept() {
  static Kept all;
  return all;
}

}  // namespace

void keep_only_inputs_of(const std::string& inputs) {
  const std::scoped_lock hold(kept().lock);
  if (std::exchange(kept().inputs, inputs) != inputs) kept().made.clear();
}

bool holds_shared_input(const std::string& inputs, const std::string& name) {
  const std::scoped_lock hold(kept().lock);
  return kept().inputs == inputs && kept().made.contains(name);
}

std::shared_ptr<const void> shared_input(const std::string& inputs, const std::string& name,
                                         const std::function<std::shared_ptr<const void>()>& make) {
  const std::scoped_lock hold(kept().lock);
  keep_only_inputs_of(inputs);
  if (const auto found = kept().made.find(name); found != kept().made.end()) return found->second;
  return kept().made[name] = make();
}

KnownResult known_result(const std::string& inputs, const std::string& buffer, const KnownResult& own) {
  static std::mutex lock;
  static std::map<std::pair<std::string, std::string>, KnownResult> known;
  const std::scoped_lock hold(lock);
  return known.try_emplace({inputs, buffer}, own).first->second;
}

}  // namespace isthmus::harness
