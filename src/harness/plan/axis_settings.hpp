#pragma once

// Axes of a workload, and the values that --set, --size-sweep, presets and defaults assign to them.

#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/request.hpp"

namespace isthmus::harness {

/// Axes that one kind of placement adds to those of a workload. A case's settings include such an axis only if it has
/// an effect on the case, so that the settings of all other cases stay as they were before these axes existed.
struct PlacementAxes {
  std::string_view placement;
  std::vector<const Axis*> axes;
};

std::vector<PlacementAxes> placement_axes(const Workload& workload);
/// Returns the axes of the workload and of its placements.
std::vector<const Axis*> axes_of(const Workload& workload);

/// Splits each "axis=value,value". Throws InputError for text that is not a setting.
std::vector<Setting> parse_settings(const std::vector<std::string>& texts);
/// Returns the values of the settings whose axes the workload has. Throws InputError for a value that its axis rejects.
std::vector<AxisRange> parse_values(const Workload& workload, const std::vector<Setting>& settings);

/// Returns whether the preset fixes or sweeps the axis.
bool settles(const Preset* preset, std::string_view axis);
/// Returns the preset's sweep, followed by the values of every axis that is `set` or swept. A default sweep applies
/// only to an axis that neither the preset nor `named_size` fixes. If the user named no size, `named_size` is nullptr.
std::vector<AxisRange> ranges_of(const Workload& workload, const Size* named_size, const Preset* preset,
                                 const std::vector<AxisRange>& set, bool size_sweep);

}  // namespace isthmus::harness
