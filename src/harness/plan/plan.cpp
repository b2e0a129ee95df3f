#include "harness/plan/plan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/plan/axis_settings.hpp"
#include "harness/plan/combinations.hpp"
#include "harness/plan/names.hpp"
#include "harness/plan/old_names.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::harness {

std::vector<const Workload*> select_workloads(const std::vector<std::string>& patterns) {
  std::vector<const Workload*> selected;
  for (const auto& pattern : patterns) {
    const auto found = find_workloads(pattern);
    const auto current = current_workload(pattern);
    if (found.empty() && current != pattern && !find_workloads(current).empty())
      throw InputError("no workload matches '" + pattern + "' any longer; it is called '" + current + "' now");
    if (found.empty())
      throw InputError("no workload matches '" + pattern + "'; " + suggestion(pattern, workload_names(pattern)));
    for (const auto* workload : found) {
      if (!contains(selected, workload)) selected.push_back(workload);
    }
  }
  return selected;
}

namespace {

/// Those that have the preset. Throws InputError where none has.
std::vector<const Workload*> with_preset(const std::vector<const Workload*>& workloads, const std::string& preset) {
  std::vector<const Workload*> list;
  std::vector<std::string> known;
  for (const auto* workload : workloads) {
    const auto& description = workload->description();
    if (description.find_preset(preset) != nullptr) list.push_back(workload);
    for (const auto& each : description.presets) {
      if (!contains(known, each.name)) known.push_back(each.name);
    }
  }
  if (list.empty())
    throw InputError("none of the selected workloads has a preset '" + preset + "'; " + suggestion(preset, known));
  return list;
}

std::vector<CaseSpec> cases_of(const Workload& workload, const Request& request, const std::vector<Setting>& settings) {
  const Preset* preset = request.preset ? workload.description().find_preset(*request.preset) : nullptr;
  const bool nothing_named = request.modes.empty() && request.placements.empty() && request.stagings.empty();
  const auto& modes = preset != nullptr && nothing_named ? preset->modes : request.modes;
  const auto& sizes = preset != nullptr && request.sizes.empty() ? preset->sizes : request.sizes;
  const auto chosen = combinations(workload, request, modes);
  const bool beside_paged = std::ranges::any_of(
      chosen, [](const auto& combination) { return combination.placement && (*combination.placement)->paged; });
  std::vector<CaseSpec> cases;
  for (const auto& size : sizes_of(workload, sizes)) {
    const auto* named_size = sizes.empty() ? nullptr : size.size;
    const auto ranges = ranges_of(workload, named_size, preset, settings, request.size_sweep);
    CaseSpec common;
    common.workload = &workload;
    common.preset = request.preset;
    common.size = size.name;
    for (const auto& range : ranges) {
      if (range.values.size() > 1 && !contains(common.varied, range.axis)) common.varied.push_back(range.axis);
    }
    // Placements innermost: cases with the same inputs follow one another, and those are made once.
    for (const auto& point : points_of(ranges)) {
      for (const auto& combination : chosen) {
        CaseSpec spec = common;
        spec.placement = combination.placement;
        spec.staging = combination.staging;
        spec.not_applicable = size.not_applicable ? size.not_applicable : combination.not_applicable;
        settle_axes(spec, size.size, preset, point, beside_paged);
        // Two sizes, or two points of a preset, are one case where a setting makes them the same.
        if (!contains(cases, spec)) cases.push_back(std::move(spec));
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<CaseSpec> plan(const Request& request, std::vector<std::string>* notices) {
  if (!request.modes.empty() && (!request.placements.empty() || !request.stagings.empty()))
    throw InputError("--mode names a placement and a staging already; give either it or --placement and --staging");
  auto workloads = select_workloads(request.patterns);
  check_names(request, workloads);
  const auto settings = parse_settings(request.settings);
  check_size_sweep(request, workloads, settings);
  if (request.preset) workloads = with_preset(workloads, *request.preset);
  check_settings(settings, workloads, request.patterns, notices);

  std::vector<CaseSpec> cases;
  for (const auto* workload : workloads) {
    auto own = cases_of(*workload, request, settings);
    cases.insert(cases.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  }
  if (cases.empty()) throw InputError("this selection leaves no case to run; widen --mode, --placement or --size");
  return cases;
}

}  // namespace isthmus::harness
