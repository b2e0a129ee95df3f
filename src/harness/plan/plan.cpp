#include "harness/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "harness/plan/names.hpp"
#include "harness/plan/registry.hpp"
#include "memory/host_memory.hpp"
#include "workload/driver_prefetch.hpp"

namespace isthmus::harness {

namespace {

using memory::Placement;

/// A placement and a staging, where the workload has them; `asked` where the user named it, so that a workload without
/// it says so in a record instead of leaving it out.
struct Combination {
  std::optional<Placement> placement;
  std::optional<Staging> staging;
  std::optional<std::string> not_applicable;
};

template <class T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool asks_all(const std::vector<std::string>& names) {
  return contains(names, std::string("all"));
}

template <class T, class Parse>
std::vector<T> parse_names(const std::vector<std::string>& names, std::string_view what, Parse parse,
                           const std::vector<std::string>& known) {
  std::vector<T> values;
  for (const auto& text : names) {
    if (text == "all") continue;
    const auto value = parse(text);
    if (!value) throw InputError("there is no " + std::string(what) + " '" + text + "'; " + suggestion(text, known));
    if (!contains(values, T(*value))) values.push_back(*value);
  }
  return values;
}

std::vector<std::string> placement_names() {
  std::vector<std::string> names;
  for (const auto placement : memory::all_placements()) names.emplace_back(memory::name(placement));
  return names;
}

std::vector<std::string> staging_names() {
  std::vector<std::string> names;
  for (const auto staging : all_stagings()) names.emplace_back(name(staging));
  return names;
}

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  for (const auto& mode : all_modes()) names.emplace_back(mode.name);
  return names;
}

std::vector<const Mode*> parse_modes(const std::vector<std::string>& names) {
  std::vector<const Mode*> modes;
  for (const auto& text : names) {
    if (text == "all") {
      for (const auto& mode : all_modes()) modes.push_back(&mode);
      continue;
    }
    const auto* mode = find_mode(text);
    if (mode == nullptr) throw InputError("there is no mode '" + text + "'; " + suggestion(text, mode_names()));
    modes.push_back(mode);
  }
  return modes;
}

/// `wanted` where the workload offers it, else the first it offers.
template <class T>
std::optional<T> offered_or_first(const std::vector<T>& offered, T wanted) {
  if (offered.empty()) return std::nullopt;
  return contains(offered, wanted) ? wanted : offered.front();
}

Combination checked(const Workload& workload, std::optional<Placement> placement, std::optional<Staging> staging) {
  const auto& description = workload.description();
  Combination combination{placement, staging, std::nullopt};
  if (placement && !contains(description.placements, *placement))
    combination.not_applicable = workload.name() + " has no placement " + std::string(memory::name(*placement));
  else if (staging && !contains(description.stagings, *staging))
    combination.not_applicable = workload.name() + " has no staging " + std::string(name(*staging));
  return combination;
}

std::vector<Combination> combinations(const Workload& workload, const Request& request,
                                      const std::vector<std::string>& modes) {
  const auto& description = workload.description();
  if (description.placements.empty() && description.stagings.empty()) return {{}};
  std::vector<Combination> list;
  if (!modes.empty()) {
    for (const auto* mode : parse_modes(modes)) {
      auto combination =
          checked(workload, description.placements.empty() ? std::nullopt : std::optional(mode->placement),
                  description.stagings.empty() ? std::nullopt : std::optional(mode->staging));
      if (combination.not_applicable && asks_all(modes)) continue;
      list.push_back(std::move(combination));
    }
    return list;
  }
  std::vector<std::optional<Placement>> placements;
  if (description.placements.empty()) {
    placements = {std::nullopt};
  } else if (request.placements.empty()) {
    placements = {offered_or_first(description.placements, Placement::pageable)};
  } else {
    if (asks_all(request.placements)) placements.assign(description.placements.begin(), description.placements.end());
    for (const auto value :
         parse_names<Placement>(request.placements, "placement", memory::parse_placement, placement_names())) {
      if (!contains(placements, std::optional(value))) placements.emplace_back(value);
    }
  }
  std::vector<std::optional<Staging>> stagings;
  if (description.stagings.empty()) {
    stagings = {std::nullopt};
  } else if (request.stagings.empty()) {
    stagings = {offered_or_first(description.stagings, Staging::direct)};
  } else {
    if (asks_all(request.stagings)) stagings.assign(description.stagings.begin(), description.stagings.end());
    for (const auto value : parse_names<Staging>(request.stagings, "staging", parse_staging, staging_names())) {
      if (!contains(stagings, std::optional(value))) stagings.emplace_back(value);
    }
  }
  for (const auto placement : placements) {
    for (const auto staging : stagings) list.push_back(checked(workload, placement, staging));
  }
  return list;
}

/// The sizes to run: names that the workload has, names it lacks (skipped in the record), or none at all.
struct SizeChoice {
  std::optional<std::string> name;
  const Size* size = nullptr;
  std::optional<std::string> not_applicable;
};

std::vector<SizeChoice> sizes_of(const Workload& workload, const std::vector<std::string>& asked) {
  const auto& description = workload.description();
  if (description.sizes.empty()) return {{}};
  std::vector<SizeChoice> list;
  const auto add = [&](const std::string& name, bool named) {
    const auto* size = description.find_size(name);
    if (size != nullptr) {
      list.push_back({name, size, std::nullopt});
    } else if (named) {
      list.push_back({name, nullptr, workload.name() + " has no size " + name});
    }
  };
  if (asked.empty()) {
    if (description.find_size("small") != nullptr) return {{"small", description.find_size("small"), std::nullopt}};
    return {{description.sizes.front().name, &description.sizes.front(), std::nullopt}};
  }
  if (asks_all(asked)) {
    for (const auto& size : description.sizes) add(size.name, false);
    return list;
  }
  for (const auto& name : asked) add(name, true);
  return list;
}

void check_size_names(const std::vector<std::string>& asked, const std::vector<const Workload*>& workloads) {
  std::vector<std::string> known(kSizes.begin(), kSizes.end());
  for (const auto* workload : workloads) {
    for (const auto& size : workload->description().sizes) {
      if (!contains(known, size.name)) known.push_back(size.name);
    }
  }
  for (const auto& name : asked) {
    if (name != "all" && !contains(known, name))
      throw InputError("there is no size '" + name + "'; " + suggestion(name, known));
  }
}

AxisValue parse_value(const Workload& workload, const Axis& axis, const std::string& text) {
  const std::string where = "axis " + axis.name + " of " + workload.name();
  const bool wants_number = axis.allowed.empty() ? std::holds_alternative<std::int64_t>(axis.default_value)
                                                 : std::holds_alternative<std::int64_t>(axis.allowed.front());
  AxisValue value = text;
  // 1.5 is no number of bytes, 1.5GiB is one: only what ends with a unit is read as such.
  const auto bytes = axis.bytes && text.ends_with('B') ? memory::parse_bytes(text) : std::nullopt;
  if (wants_number && bytes) {
    value = static_cast<std::int64_t>(*bytes);
  } else if (wants_number) {
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure == std::errc::result_out_of_range)
      throw InputError("'" + text + "' is out of range for " + where + ": integers have 64 bits");
    if (failure != std::errc{} || end != text.data() + text.size())
      throw InputError("'" + text + "' is not " + (axis.bytes ? "a number of bytes (as 4096, 4KiB)" : "an integer") +
                       ", which " + where + " takes");
    value = number;
  }
  if (!axis.allowed.empty()) {
    if (contains(axis.allowed, value)) return value;
    std::vector<std::string> allowed;
    for (const auto& entry : axis.allowed) allowed.push_back(to_text(entry));
    throw InputError("'" + text + "' is no value of " + where + "; choose one of " + join(allowed, ", "));
  }
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number < axis.minimum)
    throw InputError("'" + text + "' is out of range for " + where + ": it is at least " +
                     std::to_string(axis.minimum));
  return value;
}

/// What the user set an axis to, still as text.
struct Setting {
  std::string axis;
  std::vector<std::string> values;
};

std::vector<Setting> parse_settings(const std::vector<std::string>& settings) {
  std::vector<Setting> parsed;
  for (const auto& text : settings) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw InputError("'" + text + "' is no setting; write --set axis=value or --set axis=value,value");
    std::string axis = text.substr(0, equals);
    const bool twice = std::any_of(parsed.begin(), parsed.end(), [&](const auto& entry) { return entry.axis == axis; });
    if (twice) throw InputError("axis " + axis + " is set twice; list its values in one --set, as " + axis + "=v1,v2");
    auto values = split(std::string_view(text).substr(equals + 1), ',');
    if (contains(values, std::string()))
      throw InputError("'" + text + "' lists an empty value; write --set " + axis + "=value,value");
    parsed.push_back({std::move(axis), std::move(values)});
  }
  return parsed;
}

/// The values of a setting in the order given; `all` stands for the axis's own list.
std::vector<AxisValue> parse_values(const Workload& workload, const Axis& axis, const std::vector<std::string>& texts) {
  const AxisValue all = std::string("all");
  if (texts.size() == 1 && AxisValue(texts.front()) == all && !contains(axis.allowed, all)) {
    const auto& list = !axis.allowed.empty() ? axis.allowed : !axis.listed.empty() ? axis.listed : axis.sweep;
    if (list.empty())
      throw InputError("axis " + axis.name + " of " + workload.name() +
                       " takes any number, so 'all' names none; list the values, as --set " + axis.name + "=v1,v2");
    return list;
  }
  std::vector<AxisValue> values;
  for (const auto& text : texts) {
    auto value = parse_value(workload, axis, text);
    if (contains(values, value))
      throw InputError("value " + text + " of axis " + axis.name + " is listed twice; give each value once");
    values.push_back(std::move(value));
  }
  return values;
}

void assign(AxisSettings& axes, std::string_view name, AxisValue value) {
  for (auto& [axis, old] : axes) {
    if (axis != name) continue;
    old = std::move(value);
    return;
  }
}

/// An axis that every workload with a managed placement has beside its own. It is in a case's settings only where it
/// changes something, so that cases without it are the same as ever.
const Axis* extra_axis(const Workload& workload) {
  static const Axis axis = driver_prefetch_axis();
  const auto& description = workload.description();
  const bool managed = std::any_of(description.placements.begin(), description.placements.end(), memory::is_managed);
  return managed && description.find_axis(kDriverPrefetch) == nullptr ? &axis : nullptr;
}

/// The workload's own axes and that one.
std::vector<const Axis*> axes_of(const Workload& workload) {
  std::vector<const Axis*> axes;
  for (const auto& axis : workload.description().axes) axes.push_back(&axis);
  if (const auto* extra = extra_axis(workload)) axes.push_back(extra);
  return axes;
}

bool has_axis(const Workload& workload, std::string_view name) {
  const auto* extra = extra_axis(workload);
  return workload.description().find_axis(name) != nullptr || (extra != nullptr && extra->name == name);
}

std::vector<std::string> axis_names(const Workload& workload) {
  std::vector<std::string> names;
  for (const auto* axis : axes_of(workload)) names.push_back(axis->name);
  return names;
}

bool sets(const AxisSettings& settings, std::string_view axis) {
  return std::any_of(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == axis; });
}

/// An axis and the values that it takes in turn.
struct AxisRange {
  std::string axis;
  std::vector<AxisValue> values;
};

/// What runs on the axes that no size or preset settles. A size that nobody named gives way to the usual values.
std::vector<AxisRange> ranges_of(const Workload& workload, const Size* named_size, const Preset* preset,
                                 const std::vector<Setting>& settings, bool size_sweep) {
  std::vector<AxisRange> ranges;
  for (const auto* each : axes_of(workload)) {
    const auto& axis = *each;
    const auto setting =
        std::find_if(settings.begin(), settings.end(), [&](const auto& entry) { return entry.axis == axis.name; });
    const bool settled = (named_size != nullptr && sets(named_size->settings, axis.name)) ||
                         (preset != nullptr && (sets(preset->settings, axis.name) || preset->sweep_axis == axis.name));
    if (setting != settings.end()) {
      ranges.push_back({axis.name, parse_values(workload, axis, setting->values)});
    } else if (size_sweep && !axis.sweep.empty()) {
      ranges.push_back({axis.name, axis.sweep});
    } else if (!axis.usual.empty() && !settled) {
      ranges.push_back({axis.name, axis.usual});
    }
  }
  return ranges;
}

/// The product of the ranges; the last axis varies fastest.
std::vector<AxisSettings> points_of(const std::vector<AxisRange>& ranges) {
  std::vector<AxisSettings> points{{}};
  for (const auto& range : ranges) {
    std::vector<AxisSettings> longer;
    for (const auto& point : points) {
      for (const auto& value : range.values) {
        longer.push_back(point);
        longer.back().emplace_back(range.axis, value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

/// Axis values of one case: default, then size, preset, sweep, and last this point of the ranges.
void settle_axes(CaseSpec& spec, const Size* size, const Preset* preset, const AxisValue* swept,
                 const AxisSettings& point) {
  const auto& description = spec.workload->description();
  for (const auto& axis : description.axes) spec.axes.emplace_back(axis.name, axis.default_value);
  const auto apply = [&](const AxisSettings& values, std::string_view from) {
    for (const auto& [axis, value] : values) {
      if (description.find_axis(axis) == nullptr)
        throw InputError(spec.workload->name() + ": " + std::string(from) + " sets axis " + axis +
                         ", which the workload has not; correct its registration");
      assign(spec.axes, axis, value);
    }
  };
  if (size != nullptr) apply(size->settings, "size " + size->name);
  if (preset != nullptr) {
    apply(preset->settings, "preset " + preset->name);
    if (swept != nullptr) apply({{preset->sweep_axis, *swept}}, "preset " + preset->name);
  }
  for (const auto& [axis, value] : point) {
    const bool extra = description.find_axis(axis) == nullptr;
    if (!extra) assign(spec.axes, axis, value);
    if (!extra || value == AxisValue(std::string(kDriverPrefetchDefault))) continue;
    spec.axes.emplace_back(axis, value);
    if (spec.placement && !memory::is_managed(*spec.placement) && !spec.not_applicable)
      spec.not_applicable = fmt::format("axis {} is for managed memory, of which placement {} has none", axis,
                                        memory::name(*spec.placement));
  }
  // A shape that is not the size's own must not carry its name.
  if (size != nullptr) {
    for (const auto& setting : size->settings) {
      if (*spec.find(setting.first) != setting.second) spec.size.reset();
    }
  }
}

/// Refuses a setting whose axis a workload lacks, unless a glob picked that workload up beside others that have it.
void check_settings(const std::vector<Setting>& settings, const std::vector<const Workload*>& workloads,
                    const std::vector<std::string>& patterns, std::vector<std::string>* notices) {
  for (const auto& [axis, values] : settings) {
    std::vector<const Workload*> without;
    for (const auto* workload : workloads) {
      if (!has_axis(*workload, axis)) without.push_back(workload);
    }
    if (without.empty()) continue;
    const bool nowhere = without.size() == workloads.size();
    const auto named = std::find_if(without.begin(), without.end(),
                                    [&](const auto* workload) { return contains(patterns, workload->name()); });
    if (!nowhere && named == without.end()) {
      if (notices != nullptr)
        notices->push_back("axis " + axis + " is set where there is one: " + std::to_string(without.size()) + " of " +
                           std::to_string(workloads.size()) + " workloads have none and run as they are");
      continue;
    }
    const auto asked = nowhere ? workloads : std::vector{*named};
    std::vector<std::string> known;
    for (const auto* workload : asked) {
      for (auto& name : axis_names(*workload)) {
        if (!contains(known, name)) known.push_back(std::move(name));
      }
    }
    throw InputError("there is no axis '" + axis + "' in " +
                     (asked.size() == 1 ? asked.front()->name() : "any of the selected workloads") + "; " +
                     suggestion(axis, known));
  }
}

void check_size_sweep(const Request& request, const std::vector<const Workload*>& workloads,
                      const std::vector<Setting>& settings) {
  if (!request.size_sweep) return;
  if (!request.sizes.empty()) throw InputError("--size-sweep and --size both choose the sizes; give one of them");
  if (request.preset) throw InputError("--size-sweep and --preset both choose the sizes; give one of them");
  bool any = false;
  for (const auto* workload : workloads) {
    for (const auto& axis : workload->description().axes) {
      if (axis.sweep.empty()) continue;
      any = true;
      for (const auto& setting : settings) {
        if (setting.axis == axis.name)
          throw InputError("--size-sweep and --set both choose values of axis " + axis.name + "; give one of them");
      }
    }
  }
  if (!any)
    throw InputError("none of the selected workloads has a list of sizes to sweep; choose with --size or --set");
}

const AxisValue& existing(const CaseSpec& spec, std::string_view axis) {
  const auto* value = spec.find(axis);
  if (value == nullptr)
    throw std::logic_error(spec.workload->name() + " asks for axis " + std::string(axis) +
                           ", which its registration lacks");
  return *value;
}

}  // namespace

}  // namespace isthmus::harness

namespace isthmus::workload {

using harness::existing;

const AxisValue* CaseSpec::find(std::string_view axis) const noexcept {
  for (const auto& [name, value] : axes) {
    if (name == axis) return &value;
  }
  return nullptr;
}

std::int64_t CaseSpec::integer(std::string_view axis) const {
  const auto* number = std::get_if<std::int64_t>(&existing(*this, axis));
  if (number == nullptr) throw std::logic_error("axis " + std::string(axis) + " is a choice, not an integer");
  return *number;
}

std::string_view CaseSpec::choice(std::string_view axis) const {
  const auto* text = std::get_if<std::string>(&existing(*this, axis));
  if (text == nullptr) throw std::logic_error("axis " + std::string(axis) + " is an integer, not a choice");
  return *text;
}

std::string CaseSpec::label() const {
  std::string text = workload->name();
  if (placement) text += " " + std::string(memory::name(*placement));
  if (staging) text += (placement ? "×" : " ") + std::string(name(*staging));
  if (size) text += " " + *size;
  if (preset) text += " (" + *preset + ")";
  for (const auto& axis : varied) {
    const bool left_out = axis == kDriverPrefetch && find(axis) == nullptr;
    text += " " + axis + "=" + (left_out ? std::string(kDriverPrefetchDefault) : to_text(existing(*this, axis)));
  }
  return text;
}

}  // namespace isthmus::workload

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

std::vector<CaseSpec> plan(const Request& request, std::vector<std::string>* notices) {
  if (!request.modes.empty() && (!request.placements.empty() || !request.stagings.empty()))
    throw InputError("--mode names a placement and a staging already; give either it or --placement and --staging");
  auto workloads = select_workloads(request.patterns);
  // Names are checked even where no selected workload uses them.
  parse_modes(request.modes);
  parse_names<Placement>(request.placements, "placement", memory::parse_placement, placement_names());
  parse_names<Staging>(request.stagings, "staging", parse_staging, staging_names());
  check_size_names(request.sizes, workloads);
  const auto settings = parse_settings(request.settings);
  check_size_sweep(request, workloads, settings);

  if (request.preset) {
    std::vector<std::string> known;
    for (const auto* workload : workloads) {
      for (const auto& preset : workload->description().presets) {
        if (!contains(known, preset.name)) known.push_back(preset.name);
      }
    }
    if (!contains(known, *request.preset))
      throw InputError("none of the selected workloads has a preset '" + *request.preset + "'; " +
                       suggestion(*request.preset, known));
    std::erase_if(workloads, [&](const auto* w) { return w->description().find_preset(*request.preset) == nullptr; });
  }

  check_settings(settings, workloads, request.patterns, notices);

  std::vector<CaseSpec> cases;
  for (const auto* workload : workloads) {
    const auto first_of_workload = static_cast<std::ptrdiff_t>(cases.size());
    const Preset* preset = request.preset ? workload->description().find_preset(*request.preset) : nullptr;
    const bool nothing_named = request.modes.empty() && request.placements.empty() && request.stagings.empty();
    const auto& modes = preset != nullptr && nothing_named ? preset->modes : request.modes;
    const auto& sizes = preset != nullptr && request.sizes.empty() ? preset->sizes : request.sizes;
    std::vector<const AxisValue*> sweep{nullptr};
    if (preset != nullptr && !preset->sweep.empty()) {
      sweep.clear();
      for (const auto& value : preset->sweep) sweep.push_back(&value);
    }
    for (const auto& size : sizes_of(*workload, sizes)) {
      const auto ranges =
          ranges_of(*workload, sizes.empty() ? nullptr : size.size, preset, settings, request.size_sweep);
      CaseSpec common;
      common.workload = workload;
      common.preset = request.preset;
      if (sweep.size() > 1) common.varied.push_back(preset->sweep_axis);
      for (const auto& range : ranges) {
        if (range.values.size() > 1 && !contains(common.varied, range.axis)) common.varied.push_back(range.axis);
      }
      // Placements innermost: cases with the same inputs follow one another, and those are made once.
      const auto points = points_of(ranges);
      const auto chosen = combinations(*workload, request, modes);
      for (const auto* swept : sweep) {
        for (const auto& point : points) {
          for (const auto& combination : chosen) {
            CaseSpec spec = common;
            spec.placement = combination.placement;
            spec.staging = combination.staging;
            spec.size = size.name;
            spec.not_applicable = size.not_applicable ? size.not_applicable : combination.not_applicable;
            settle_axes(spec, size.size, preset, swept, point);
            // Two sizes, or two points of a preset, are one case where a setting makes them the same.
            if (std::find(cases.begin() + first_of_workload, cases.end(), spec) == cases.end())
              cases.push_back(std::move(spec));
          }
        }
      }
    }
  }
  if (cases.empty()) throw InputError("this selection leaves no case to run; widen --mode, --placement or --size");
  return cases;
}

}  // namespace isthmus::harness
