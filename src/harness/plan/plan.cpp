#include "harness/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/plan/axis_settings.hpp"
#include "harness/plan/combinations.hpp"
#include "harness/plan/names.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::harness {

std::vector<const Workload*> select_workloads(const std::vector<std::string>& patterns) {
  std::vector<const Workload*> selected;
  for (const auto& pattern : patterns) {
    const auto found = find_workloads(pattern);
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

/// Notes which of the selected workloads a preset leaves out. Throws InputError for one that was asked for by its name.
void check_left_out(const std::string& preset, const std::vector<const Workload*>& selected,
                    const std::vector<const Workload*>& kept, const std::vector<std::string>& patterns,
                    std::vector<std::string>* notices) {
  for (const auto* workload : selected) {
    if (!contains(kept, workload) && contains(patterns, workload->name()))
      throw InputError(fmt::format("{} has no preset '{}', so it would be left out; leave it or the preset out",
                                   workload->name(), preset));
  }
  if (kept.size() < selected.size() && notices != nullptr)
    notices->push_back(fmt::format("preset {} is of {} of {} workloads, and the others are left out", preset,
                                   kept.size(), selected.size()));
}

/// Notes which workloads have none of the choices of `--mode all` or its like. Throws InputError for one that was asked
/// for by its name.
void check_without_cases(const std::vector<const Workload*>& without, std::size_t selected, const Request& request,
                         std::vector<std::string>* notices) {
  if (without.empty()) return;
  const auto named =
      std::ranges::find_if(without, [&](const auto* each) { return contains(request.patterns, each->name()); });
  if (named != without.end())
    throw InputError(
        fmt::format("this selection leaves no case of {} to run; widen --mode, --placement or --size, or "
                    "leave the workload out",
                    (*named)->name()));
  if (without.size() == selected)
    throw InputError("this selection leaves no case to run; widen --mode, --placement or --size");
  if (notices != nullptr)
    notices->push_back(fmt::format("this selection leaves no case of {} of {} workloads, such as {}, to run",
                                   without.size(), selected, without.front()->name()));
}

/// Notes where --set, or the preset, says all that the sizes of a workload say, so that a size that was asked for
/// changes nothing.
void check_sizes_count(const std::vector<const Workload*>& workloads, const Request& request,
                       const std::vector<Setting>& settings, std::vector<std::string>* notices) {
  if (request.sizes.empty() || notices == nullptr) return;
  const auto is_overruled = [&](const Workload* workload) {
    const auto& description = workload->description();
    const auto* preset = request.preset ? description.find_preset(*request.preset) : nullptr;
    const auto is_set = [&](const std::pair<std::string, AxisValue>& of_size) {
      const auto same = [&](const auto& setting) { return setting.first == of_size.first; };
      return std::ranges::any_of(settings, [&](const Setting& each) { return each.axis == of_size.first; }) ||
             (preset != nullptr &&
              (preset->sweep_axis == of_size.first || std::ranges::any_of(preset->settings, same)));
    };
    return !description.sizes.empty() && std::ranges::all_of(description.sizes, [&](const Size& size) {
      return !size.settings.empty() && std::ranges::all_of(size.settings, is_set);
    });
  };
  const auto overruled = std::ranges::find_if(workloads, is_overruled);
  if (overruled != workloads.end())
    notices->push_back(
        fmt::format("--size has no effect on {}, since {} says all that its sizes say; leave one of them "
                    "out",
                    (*overruled)->name(), settings.empty() ? "the preset" : "--set"));
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
  check_offers(request, workloads, notices);
  const auto settings = parse_settings(request.settings);
  check_size_sweep(request, workloads, settings);
  if (request.preset) {
    const auto selected = std::exchange(workloads, with_preset(workloads, *request.preset));
    check_left_out(*request.preset, selected, workloads, request.patterns, notices);
  }
  check_sizes_count(workloads, request, settings, notices);
  check_settings(settings, workloads, request.patterns, notices);

  std::vector<CaseSpec> cases;
  std::vector<const Workload*> without;
  for (const auto* workload : workloads) {
    auto own = cases_of(*workload, request, settings);
    if (own.empty()) without.push_back(workload);
    cases.insert(cases.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  }
  check_without_cases(without, workloads.size(), request, notices);
  return cases;
}

}  // namespace isthmus::harness
