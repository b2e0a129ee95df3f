#include "harness/plan/axis_settings.hpp"

#include <algorithm>
#include <charconv>

#include "harness/plan/names.hpp"
#include "memory/host_memory.hpp"
#include "workload/driver_prefetch.hpp"
#include "workload/paged.hpp"

namespace isthmus::harness {

namespace {

using memory::Placement;

/// Returns how to set two axes, for the error message about a value that contains a second setting; returns "" for
/// other values. Such a value is `threads=2`, or `4KiB threads=2` for axis `bytes`.
std::string how_to_set_two(const std::string& axis, const std::string& text) {
  const auto equals = text.find('=');
  const auto begin = text.find_last_of(" ;", equals) + 1;  // 0 if there is no separator
  if (equals == std::string::npos || begin == equals) return "";
  return "; pass each setting separately, as --set " + axis + "=… --set " + text.substr(begin);
}

AxisValue parse_value(const Workload& workload, const Axis& axis, const std::string& text) {
  const std::string where = "axis " + axis.name + " of " + workload.name();
  const bool wants_number = axis.choices.empty() ? std::holds_alternative<std::int64_t>(axis.default_value)
                                                 : std::holds_alternative<std::int64_t>(axis.choices.front());
  AxisValue value = text;
  // 1.5 is not a number of bytes, but 1.5GiB is: only text that ends with a unit is parsed as bytes.
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
  if (takes(axis, value)) return value;
  if (axis.choices.empty())
    throw InputError("'" + text + "' is out of range for " + where + ": it is at least " +
                     std::to_string(axis.minimum));
  const auto hint = how_to_set_two(axis.name, text);
  throw InputError("'" + text + "' is not a value of " + where +
                   (hint.empty() ? "; choose one of " + join(mapped(axis.choices, to_text), ", ") : hint));
}

/// Returns the values of a setting in the given order; `all` stands for all values that the axis lists.
std::vector<AxisValue> parse_range(const Workload& workload, const Axis& axis, const std::vector<std::string>& texts) {
  const AxisValue all = std::string("all");
  if (texts.size() == 1 && AxisValue(texts.front()) == all && !contains(axis.choices, all)) {
    const auto& list = !axis.choices.empty()      ? axis.choices
                       : !axis.all_values.empty() ? axis.all_values
                                                  : axis.size_sweep;
    if (list.empty())
      throw InputError("axis " + axis.name + " of " + workload.name() +
                       " accepts any number, so 'all' has no meaning; list the values, as --set " + axis.name +
                       "=v1,v2");
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

bool sets(const AxisSettings& settings, std::string_view axis) {
  return std::ranges::any_of(settings, [&](const auto& setting) { return setting.first == axis; });
}

}  // namespace

std::vector<PlacementAxes> placement_axes(const Workload& workload) {
  static const std::vector<Axis> managed{driver_prefetch_axis()}, paged = paging_axes();
  const auto& description = workload.description();
  std::vector<PlacementAxes> found;
  const auto add = [&](std::string_view placement, const std::vector<Axis>& axes, auto is_such) {
    if (!std::ranges::any_of(description.placements, is_such)) return;
    PlacementAxes added{placement, {}};
    for (const auto& axis : axes) {
      if (description.find_axis(axis.name) == nullptr) added.axes.push_back(&axis);
    }
    if (!added.axes.empty()) found.push_back(std::move(added));
  };
  add("managed", managed, [](Placement placement) { return placement->managed(); });
  add("paged", paged, [](Placement placement) { return placement->paged; });
  return found;
}

std::vector<const Axis*> axes_of(const Workload& workload) {
  std::vector<const Axis*> axes;
  for (const auto& axis : workload.description().axes) axes.push_back(&axis);
  for (const auto& added : placement_axes(workload)) axes.insert(axes.end(), added.axes.begin(), added.axes.end());
  return axes;
}

std::vector<Setting> parse_settings(const std::vector<std::string>& texts) {
  std::vector<Setting> parsed;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw InputError("'" + text + "' is not a setting; write --set axis=value or --set axis=value,value");
    std::string axis = text.substr(0, equals);
    if (std::ranges::find(parsed, axis, &Setting::axis) != parsed.end())
      throw InputError("axis " + axis + " is set twice; list its values in one --set, as " + axis + "=v1,v2");
    auto values = split(std::string_view(text).substr(equals + 1), ',');
    if (contains(values, std::string()))
      throw InputError("'" + text + "' lists an empty value; write --set " + axis + "=value,value");
    parsed.push_back({std::move(axis), std::move(values)});
  }
  return parsed;
}

std::vector<AxisRange> parse_values(const Workload& workload, const std::vector<Setting>& settings) {
  std::vector<AxisRange> ranges;
  for (const auto* axis : axes_of(workload)) {
    const auto setting = std::ranges::find(settings, axis->name, &Setting::axis);
    if (setting != settings.end()) ranges.push_back({axis->name, parse_range(workload, *axis, setting->values)});
  }
  return ranges;
}

bool settles(const Preset* preset, std::string_view axis) {
  return preset != nullptr && (sets(preset->settings, axis) || preset->sweep_axis == axis);
}

std::vector<AxisRange> ranges_of(const Workload& workload, const Size* named_size, const Preset* preset,
                                 const std::vector<AxisRange>& set, bool size_sweep) {
  std::vector<AxisRange> ranges;
  if (preset != nullptr && !preset->sweep.empty()) ranges.push_back({preset->sweep_axis, preset->sweep});
  for (const auto* axis : axes_of(workload)) {
    const auto range = std::ranges::find(set, axis->name, &AxisRange::axis);
    const bool settled =
        (named_size != nullptr && sets(named_size->settings, axis->name)) || settles(preset, axis->name);
    if (range != set.end())
      ranges.push_back(*range);
    else if (size_sweep && !axis->size_sweep.empty())
      ranges.push_back({axis->name, axis->size_sweep});
    else if (!axis->default_sweep.empty() && !settled)
      ranges.push_back({axis->name, axis->default_sweep});
  }
  return ranges;
}

}  // namespace isthmus::harness
