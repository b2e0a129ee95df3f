#include "harness/plan/axis_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "harness/plan/names.hpp"
#include "memory/host_memory.hpp"
#include "workload/driver_prefetch.hpp"
#include "workload/paged.hpp"

namespace isthmus::harness {

namespace {

using memory::Placement;

/// For the error of a value such as `threads=2`, or `4KiB threads=2`, of axis bytes: how two axes are set; else "".
std::string how_to_set_two(const std::string& axis, const std::string& text) {
  const auto equals = text.find('=');
  const auto begin = text.find_last_of(" ;", equals) + 1;  // 0 where there is none
  if (equals == std::string::npos || begin == equals) return "";
  return "; settings are given apart, as --set " + axis + "=… --set " + text.substr(begin);
}

AxisValue parse_value(const Workload& workload, const Axis& axis, const std::string& text) {
  const std::string where = "axis " + axis.name + " of " + workload.name();
  const bool wants_number = axis.choices.empty() ? std::holds_alternative<std::int64_t>(axis.default_value)
                                                 : std::holds_alternative<std::int64_t>(axis.choices.front());
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
                       ", which " + where + " takes" + how_to_set_two(axis.name, text));
    value = number;
  }
  if (!axis.choices.empty()) {
    if (contains(axis.choices, value)) return value;
    const auto hint = how_to_set_two(axis.name, text);
    throw InputError("'" + text + "' is no value of " + where +
                     (hint.empty() ? "; choose one of " + join(mapped(axis.choices, to_text), ", ") : hint));
  }
  if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr && *number < axis.minimum)
    throw InputError("'" + text + "' is out of range for " + where + ": it is at least " +
                     std::to_string(axis.minimum));
  return value;
}

/// The values of a setting in the order given; `all` stands for the axis's own list.
std::vector<AxisValue> parse_values(const Workload& workload, const Axis& axis, const std::vector<std::string>& texts) {
  const AxisValue all = std::string("all");
  if (texts.size() == 1 && AxisValue(texts.front()) == all && !contains(axis.choices, all)) {
    const auto& list = !axis.choices.empty()      ? axis.choices
                       : !axis.all_values.empty() ? axis.all_values
                                                  : axis.size_sweep;
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

/// False where the axis is not among them.
bool assign(AxisSettings& axes, std::string_view name, const AxisValue& value) {
  for (auto& [axis, old] : axes) {
    if (axis != name) continue;
    old = value;
    return true;
  }
  return false;
}

const std::vector<Axis>& page_axes() {
  static const std::vector<Axis> axes = paging_axes();
  return axes;
}
bool is_page_axis(std::string_view name) {
  return std::ranges::find(page_axes(), name, &Axis::name) != page_axes().end();
}

/// The workload's own axes, and those of its placements.
std::vector<const Axis*> axes_of(const Workload& workload) {
  std::vector<const Axis*> axes;
  for (const auto& axis : workload.description().axes) axes.push_back(&axis);
  for (const auto& beside : placement_axes(workload)) axes.insert(axes.end(), beside.axes.begin(), beside.axes.end());
  return axes;
}

std::vector<std::string> axis_names(const Workload& workload) {
  return mapped(axes_of(workload), [](const Axis* axis) { return axis->name; });
}

bool sets(const AxisSettings& settings, std::string_view axis) {
  return std::any_of(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == axis; });
}

}  // namespace

std::vector<PlacementAxes> placement_axes(const Workload& workload) {
  static const std::vector<Axis> managed{driver_prefetch_axis()};
  const auto& description = workload.description();
  std::vector<PlacementAxes> found;
  const auto add = [&](std::string_view placement, const std::vector<Axis>& axes, auto is_such) {
    if (!std::ranges::any_of(description.placements, is_such)) return;
    PlacementAxes beside{placement, {}};
    for (const auto& axis : axes) {
      if (description.find_axis(axis.name) == nullptr) beside.axes.push_back(&axis);
    }
    if (!beside.axes.empty()) found.push_back(std::move(beside));
  };
  add("managed", managed, [](Placement placement) { return placement->managed(); });
  add("paged", page_axes(), [](Placement placement) { return placement->paged; });
  return found;
}

std::vector<Setting> parse_settings(const std::vector<std::string>& settings) {
  std::vector<Setting> parsed;
  for (const auto& text : settings) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw InputError("'" + text + "' is not a setting; write --set axis=value or --set axis=value,value");
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

std::vector<AxisRange> ranges_of(const Workload& workload, const Size* named_size, const Preset* preset,
                                 const std::vector<Setting>& settings, bool size_sweep) {
  std::vector<AxisRange> ranges;
  if (preset != nullptr && !preset->sweep.empty()) ranges.push_back({preset->sweep_axis, preset->sweep});
  for (const auto* each : axes_of(workload)) {
    const auto& axis = *each;
    const auto setting =
        std::find_if(settings.begin(), settings.end(), [&](const auto& entry) { return entry.axis == axis.name; });
    const bool settled = (named_size != nullptr && sets(named_size->settings, axis.name)) ||
                         (preset != nullptr && (sets(preset->settings, axis.name) || preset->sweep_axis == axis.name));
    if (setting != settings.end()) {
      ranges.push_back({axis.name, parse_values(workload, axis, setting->values)});
    } else if (size_sweep && !axis.size_sweep.empty()) {
      ranges.push_back({axis.name, axis.size_sweep});
    } else if (!axis.default_sweep.empty() && !settled) {
      ranges.push_back({axis.name, axis.default_sweep});
    }
  }
  return ranges;
}

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

void settle_axes(CaseSpec& spec, const Size* size, const Preset* preset, const AxisSettings& point, bool beside_paged) {
  const auto add = [&](const Axis& axis) { spec.axes.emplace_back(axis.name, axis.default_value); };
  std::ranges::for_each(spec.workload->description().axes, add);
  if (spec.placement && (*spec.placement)->paged) std::ranges::for_each(page_axes(), add);
  const auto apply = [&](const AxisSettings& values) {
    for (const auto& [axis, value] : values) assign(spec.axes, axis, value);
  };
  if (size != nullptr) apply(size->settings);
  if (preset != nullptr) apply(preset->settings);
  for (const auto& [axis, value] : point) {
    if (assign(spec.axes, axis, value) || value == AxisValue(std::string(kDriverPrefetchDefault))) continue;
    if (is_page_axis(axis)) {
      if (!beside_paged && !spec.not_applicable)
        spec.not_applicable = fmt::format("axis {} is for placement paged, which is not among those asked for", axis);
      continue;
    }
    spec.axes.emplace_back(axis, value);
    if (spec.placement && !(*spec.placement)->managed() && !spec.not_applicable)
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

void check_settings(const std::vector<Setting>& settings, const std::vector<const Workload*>& workloads,
                    const std::vector<std::string>& patterns, std::vector<std::string>* notices) {
  for (const auto& [axis, values] : settings) {
    std::vector<const Workload*> without;
    for (const auto* workload : workloads) {
      if (!contains(axis_names(*workload), axis)) without.push_back(workload);
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
      if (axis.size_sweep.empty()) continue;
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

}  // namespace isthmus::harness
