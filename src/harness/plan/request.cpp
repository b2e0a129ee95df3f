#include "harness/plan/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ranges>
#include <span>
#include <utility>

#include "harness/plan/axis_settings.hpp"
#include "harness/plan/modes.hpp"
#include "harness/plan/names.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::harness {

namespace {

using memory::Placement;

constexpr double kMostCases = 100'000;  // a plan keeps all of them in memory

/// Values that the user named; `all` adds every other value that a workload has.
template <class T>
struct Named {
  std::vector<T> values;
  bool all = false;
  bool any() const { return all || !values.empty(); }
};

struct Names {
  Named<Mode> modes;
  Named<Placement> placements;
  Named<Staging> stagings;
  Named<std::string> sizes;
};

/// Returns the values of `every` that the texts name. Throws InputError for an unknown name.
template <class Every, class Name>
auto parse_named(const std::vector<std::string>& texts, std::string_view what, const Every& every, Name name_of) {
  Named<std::ranges::range_value_t<Every>> named;
  for (const auto& text : texts) {
    if (text == "all") {
      named.all = true;
      continue;
    }
    const auto found = std::ranges::find_if(every, [&](const auto& each) { return name_of(each) == text; });
    if (found == std::ranges::end(every)) {
      const auto known = mapped(every, [&](const auto& each) { return std::string(name_of(each)); });
      throw InputError(fmt::format("there is no {} '{}'; {}", what, text, suggestion(text, known)));
    }
    if (!contains(named.values, *found)) named.values.push_back(*found);
  }
  return named;
}

Named<Mode> parse_modes(const std::vector<std::string>& texts) {
  return parse_named(texts, "mode", all_modes(), [](const Mode& mode) { return mode.name; });
}

/// Parses all names. Refuses unknown names, even if no workload would use them.
Names parse_names(const RequestTexts& texts, const std::vector<WorkloadRequest>& workloads) {
  std::vector<std::string> sizes(kSizes.begin(), kSizes.end());
  for (const auto& each : workloads) {
    for (const auto& size : each.workload->description().sizes) {
      if (!contains(sizes, size.name)) sizes.push_back(size.name);
    }
  }
  const auto& placements = memory::all_placements();
  return {parse_modes(texts.modes),
          parse_named(texts.placements, "placement", placements, [](Placement each) { return memory::name(each); }),
          parse_named(texts.stagings, "staging", all_stagings(), [](Staging each) { return name(each); }),
          parse_named(texts.sizes, "size", sizes, [](std::string_view each) { return each; })};
}

/// Unfinished request, and the texts from which it is made.
struct Draft {
  const RequestTexts& texts;
  Names names{};
  Request request{};

  bool sets(std::string_view axis) const {
    return std::ranges::find(request.settings, axis, &Setting::axis) != request.settings.end();
  }
};

/// Workloads that lack something that was requested. This is an error if all selected workloads lack it, or if one that
/// was selected by its exact name does; a glob may select some that lack it.
struct Lack {
  std::vector<const Workload*> workloads;
  std::size_t of;                   ///< total number of workloads
  const Workload* named = nullptr;  ///< one of them that was selected by its exact name

  bool everywhere() const { return workloads.size() == of; }
  bool refused() const { return everywhere() || named != nullptr; }
};

template <class Has>
Lack lack_of(const Draft& draft, Has has) {
  Lack lack{{}, draft.request.workloads.size()};
  for (const auto& each : draft.request.workloads) {
    if (has(each)) continue;
    lack.workloads.push_back(each.workload);
    if (lack.named == nullptr && contains(draft.texts.patterns, each.workload->name())) lack.named = each.workload;
  }
  return lack;
}

/// Checks that the selected workloads offer a choice of placement or staging if the user named one, or a mode.
void check_offers(Draft& draft) {
  const auto check = [&](std::string_view option, const auto& named, auto has_any) {
    if (named.all || named.values.empty()) return;  // "all" also fits workloads without a choice
    const auto lack = lack_of(draft, has_any);
    if (lack.refused())
      throw InputError(fmt::format("--{} has no effect on {}, which offers no choice; omit it", option,
                                   lack.named != nullptr ? lack.named->name() : "any of the selected workloads"));
    if (!lack.workloads.empty())
      draft.request.notices.push_back(fmt::format("--{} has no effect on {} of {} workloads, which offer no choice",
                                                  option, lack.workloads.size(), lack.of));
  };
  const auto is_placed = [](const auto& each) { return !each.workload->description().placements.empty(); };
  const auto is_staged = [](const auto& each) { return !each.workload->description().stagings.empty(); };
  check("placement", draft.names.placements, is_placed);
  check("staging", draft.names.stagings, is_staged);
  check("mode", draft.names.modes, [&](const auto& each) { return is_placed(each) || is_staged(each); });
}

void check_size_sweep(const Draft& draft) {
  if (!draft.texts.size_sweep) return;
  if (draft.names.sizes.any()) throw InputError("--size-sweep and --size both choose the sizes; give one of them");
  if (draft.texts.preset) throw InputError("--size-sweep and --preset both choose the sizes; give one of them");
  bool any = false;
  for (const auto& each : draft.request.workloads) {
    for (const auto& axis : each.workload->description().axes) {
      if (axis.size_sweep.empty()) continue;
      any = true;
      if (draft.sets(axis.name))
        throw InputError("--size-sweep and --set both choose values of axis " + axis.name + "; give one of them");
    }
  }
  if (!any)
    throw InputError("none of the selected workloads has a list of sizes to sweep; choose with --size or --set");
}

/// Removes the workloads that lack the preset.
void choose_preset(const std::string& preset, Draft& draft) {
  auto& workloads = draft.request.workloads;
  std::vector<std::string> known;
  for (auto& each : workloads) {
    const auto& description = each.workload->description();
    each.preset = description.find_preset(preset);
    for (const auto& one : description.presets) {
      if (!contains(known, one.name)) known.push_back(one.name);
    }
  }
  const auto lack = lack_of(draft, [](const auto& each) { return each.preset != nullptr; });
  if (lack.everywhere())
    throw InputError("none of the selected workloads has a preset '" + preset + "'; " + suggestion(preset, known));
  if (lack.named != nullptr)
    throw InputError(fmt::format("{} has no preset '{}'; omit the workload or the preset", lack.named->name(), preset));
  std::erase_if(workloads, [](const auto& each) { return each.preset == nullptr; });
  if (!lack.workloads.empty())
    draft.request.notices.push_back(fmt::format("preset {} exists in {} of {} workloads; the others are left out",
                                                preset, workloads.size(), lack.of));
}

/// Adds a notice if --set or the preset fixes everything that the sizes of a workload fix, so that a requested size
/// changes nothing.
void note_overruled_sizes(Draft& draft) {
  if (!draft.names.sizes.any()) return;
  const auto is_overruled = [&](const WorkloadRequest& each) {
    const auto is_set = [&](const auto& setting) {
      return draft.sets(setting.first) || settles(each.preset, setting.first);
    };
    const auto& sizes = each.workload->description().sizes;
    return !sizes.empty() && std::ranges::all_of(sizes, [&](const Size& size) {
      return !size.settings.empty() && std::ranges::all_of(size.settings, is_set);
    });
  };
  const auto overruled = std::ranges::find_if(draft.request.workloads, is_overruled);
  if (overruled != draft.request.workloads.end())
    draft.request.notices.push_back(
        fmt::format("--size has no effect on {}, because {} sets everything that its sizes set; omit one of them",
                    overruled->workload->name(), draft.request.settings.empty() ? "the preset" : "--set"));
}

void check_axis(const std::string& axis, Draft& draft) {
  const auto lack = lack_of(draft, [&](const auto& each) {
    return std::ranges::any_of(axes_of(*each.workload), [&](const Axis* own) { return own->name == axis; });
  });
  if (lack.refused()) {
    const auto asked = lack.everywhere() ? lack.workloads : std::vector{lack.named};
    std::vector<std::string> known;
    for (const auto* workload : asked) {
      for (const auto* own : axes_of(*workload)) {
        if (!contains(known, own->name)) known.push_back(own->name);
      }
    }
    throw InputError(fmt::format("there is no axis '{}' in {}; {}", axis,
                                 asked.size() == 1 ? asked.front()->name() : "any of the selected workloads",
                                 suggestion(axis, known)));
  }
  if (!lack.workloads.empty())
    draft.request.notices.push_back(fmt::format("axis {} has no effect on {} of {} workloads, which do not have it",
                                                axis, lack.workloads.size(), lack.of));
}

/// Returns the values that a workload runs with: the named ones; otherwise `preferred` if it is offered; otherwise the
/// first one offered.
template <class T>
std::vector<std::optional<T>> chosen(const std::vector<T>& offered, const Named<T>& named, T preferred) {
  if (offered.empty()) return {std::nullopt};
  if (!named.any()) return {contains(offered, preferred) ? preferred : offered.front()};
  std::vector<std::optional<T>> list;
  if (named.all) list.assign(offered.begin(), offered.end());
  for (const T value : named.values) {
    if (!contains(list, value)) list.emplace_back(value);
  }
  return list;
}

/// Returns the combinations of placement and staging that a workload runs with; empty if all modes were requested and
/// the workload has none of them.
std::vector<CaseSpec> combinations(const Workload& workload, const std::optional<std::string>& preset,
                                   const Names& names) {
  const auto& placements = workload.description().placements;
  const auto& stagings = workload.description().stagings;
  std::vector<CaseSpec> list;
  const auto add = [&](std::optional<Placement> placement, std::optional<Staging> staging) {
    CaseSpec each;
    each.workload = &workload;
    each.placement = placement;
    each.staging = staging;
    each.preset = preset;
    if (placement && !contains(placements, *placement))
      each.not_applicable = fmt::format("{} has no placement {}", workload.name(), memory::name(*placement));
    else if (staging && !contains(stagings, *staging))
      each.not_applicable = fmt::format("{} has no staging {}", workload.name(), name(*staging));
    if (!names.modes.all || !each.not_applicable) list.push_back(std::move(each));
  };
  if (names.modes.any() && !(placements.empty() && stagings.empty())) {
    for (const auto& mode : names.modes.all ? all_modes() : std::span(names.modes.values))
      add(placements.empty() ? std::nullopt : memory::parse_placement(mode.placement),
          stagings.empty() ? std::nullopt : std::optional(mode.staging));
    return list;
  }
  for (const auto placement : chosen(placements, names.placements, memory::plain_placement())) {
    for (const auto staging : chosen(stagings, names.stagings, Staging::direct)) add(placement, staging);
  }
  return list;
}

std::vector<SizeChoice> sizes_of(const Workload& workload, const Named<std::string>& named) {
  const auto& description = workload.description();
  if (description.sizes.empty()) return {{}};
  auto names = named.all ? mapped(description.sizes, [](const Size& size) { return size.name; }) : named.values;
  if (names.empty()) names = {description.find_size("small") != nullptr ? "small" : description.sizes.front().name};
  return mapped(names, [&](const std::string& name) {
    SizeChoice choice{name, description.find_size(name), std::nullopt};
    if (choice.size == nullptr) choice.not_applicable = workload.name() + " has no size " + name;
    return choice;
  });
}

/// Sets the combinations, sizes and ranges that the workload runs with.
void settle(WorkloadRequest& own, const Draft& draft) {
  auto names = draft.names;
  if (own.preset != nullptr) {  // the preset supplies whatever the user did not name
    if (!names.modes.any() && !names.placements.any() && !names.stagings.any())
      names.modes = parse_modes(own.preset->modes);
    if (!names.sizes.any()) names.sizes.values = own.preset->sizes;
  }
  own.combinations = combinations(*own.workload, draft.texts.preset, names);
  own.sizes = sizes_of(*own.workload, names.sizes);
  const auto set = parse_values(*own.workload, draft.request.settings);
  for (auto& size : own.sizes)
    size.ranges =
        ranges_of(*own.workload, names.sizes.any() ? size.size : nullptr, own.preset, set, draft.texts.size_sweep);
}

/// Removes the workloads that `--mode all` leaves without cases.
void keep_with_cases(Draft& draft) {
  const auto has_cases = [](const WorkloadRequest& each) { return !each.combinations.empty(); };
  const auto lack = lack_of(draft, has_cases);
  if (lack.refused())
    throw InputError(fmt::format("this selection leaves no case{} to run; widen --mode, --placement or --size{}",
                                 lack.named != nullptr ? " of " + lack.named->name() : "",
                                 lack.named != nullptr ? ", or omit the workload" : ""));
  std::erase_if(draft.request.workloads, std::not_fn(has_cases));
  if (!lack.workloads.empty())
    draft.request.notices.push_back(
        fmt::format("this selection leaves no case of {} of {} workloads, such as {}, to run", lack.workloads.size(),
                    lack.of, lack.workloads.front()->name()));
}

}  // namespace

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

double most_cases(const WorkloadRequest& request) {
  double cases = 0;
  for (const auto& size : request.sizes) {
    auto product = static_cast<double>(request.combinations.size());
    for (const auto& range : size.ranges) product *= static_cast<double>(range.values.size());
    cases += product;
  }
  return cases;
}

Request parse_request(const RequestTexts& texts) {
  if (!texts.modes.empty() && (!texts.placements.empty() || !texts.stagings.empty()))
    throw InputError("--mode already names a placement and a staging; give either --mode or --placement and --staging");
  Draft draft{texts};
  auto& [workloads, settings, names_sizes, notices] = draft.request;
  for (const auto* workload : select_workloads(texts.patterns)) workloads.push_back({.workload = workload});
  draft.names = parse_names(texts, workloads);
  check_offers(draft);
  settings = parse_settings(texts.settings);
  names_sizes = draft.names.sizes.any() || texts.size_sweep;
  check_size_sweep(draft);
  if (texts.preset) choose_preset(*texts.preset, draft);
  note_overruled_sizes(draft);
  for (const auto& setting : settings) check_axis(setting.axis, draft);
  for (auto& each : workloads) settle(each, draft);
  keep_with_cases(draft);
  double cases = 0;
  for (const auto& each : workloads) cases += most_cases(each);
  if (cases > kMostCases)
    throw InputError(
        fmt::format("this selection has {:.0f} cases, and a run has at most {:.0f}; list fewer values, or "
                    "choose fewer workloads",
                    cases, kMostCases));
  return std::move(draft.request);
}

}  // namespace isthmus::harness
