#include "harness/program/unused_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/plan/names.hpp"

namespace isthmus::harness {

namespace {

/// Options that a case notes when it reads them, each with the reason to report if no case read it.
constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
    {"--seed", "no case that ran uses it"},
    {"--samples", "no case that ran takes samples"},
    {"--warmups", "no case that ran has warm-up passes"},
    {"--min-time", "no case that ran samples adaptively"},
    {"--no-latch", "no case that ran uses the latch"},
    {"--latch-timeout", "no case that ran uses the latch"},
};

/// Returns whether a case need not read the axis, because it has only one value or the harness reads it while planning.
bool is_no_cases(const Workload& workload, const Axis& axis) {
  const auto& description = workload.description();
  return axis.choices.size() == 1 || (description.file && description.file->axis == axis.name) ||
         description.file_phase == axis.name;
}

}  // namespace

void UnusedSettings::ran(const CaseResult& result) {
  const auto& workload = *result.spec.workload;
  const auto is_read = [&](const auto& setting) { return result.consulted.contains(setting.first); };
  consulted_.insert(result.consulted.begin(), result.consulted.end());
  for (const auto& axis : workload.description().axes) {
    if (!is_no_cases(workload, axis))
      axes_.insert(axis.name);
    else
      consulted_.insert(axis.name);
  }
  const auto* size = result.spec.size ? workload.description().find_size(*result.spec.size) : nullptr;
  if (size == nullptr || size->settings.empty() || result.skipped || result.failed()) return;
  if (std::ranges::any_of(size->settings, is_read))
    any_size_ = true;
  else
    ignored_sizes_.insert(result.spec.label());
}

std::vector<std::string> UnusedSettings::sentences() const {
  std::vector<std::string> list;
  for (const auto& [option, reason] : kReasons) {
    if (contains(given_, std::string(option)) && !consulted_.contains(option))
      list.push_back(fmt::format("{} had no effect, because {}; omit it", option, reason));
  }
  for (const auto& [axis, values] : settings_) {
    if (axes_.contains(axis) && !consulted_.contains(axis))
      list.push_back(
          fmt::format("--set {}={} had no effect, because no case that ran uses that axis with these settings; omit it",
                      axis, join(values, ",")));
  }
  if (contains(given_, "--size") && !any_size_ && !ignored_sizes_.empty())
    list.push_back(fmt::format("--size had no effect, because other settings determine the size of {}; omit it",
                               *ignored_sizes_.begin()));
  return list;
}

}  // namespace isthmus::harness
