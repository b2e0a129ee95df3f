#pragma once

// Axes of a workload, and the values that --set, --size-sweep, presets and defaults give them.

#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/request.hpp"

namespace isthmus::harness {

/// Axes that workloads have beside their own for one kind of placement. They are in a case's settings only where they
/// change something, so that cases without them are the same as ever.
struct PlacementAxes {
  std::string_view placement;
  std::vector<const Axis*> axes;
};

std::vector<PlacementAxes> placement_axes(const Workload& workload);
/// The workload's own axes, and those of its placements.
std::vector<const Axis*> axes_of(const Workload& workload);

/// Splits each "axis=value,value". Throws InputError for what is no setting.
std::vector<Setting> parse_settings(const std::vector<std::string>& texts);
/// Values of the settings whose axes the workload has. Throws InputError for one that its axis does not take.
std::vector<AxisRange> parse_values(const Workload& workload, const std::vector<Setting>& settings);

/// Whether the preset says what the axis is.
bool settles(const Preset* preset, std::string_view axis);
/// The preset's sweep, and what runs on the axes that no size or preset settles: what is `set`, else a sweep. A size
/// that nobody named gives way to default sweeps.
std::vector<AxisRange> ranges_of(const Workload& workload, const Size* named_size, const Preset* preset,
                                 const std::vector<AxisRange>& set, bool size_sweep);

}  // namespace isthmus::harness
