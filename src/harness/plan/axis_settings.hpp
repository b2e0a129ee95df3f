#pragma once

// Which values the axes of a workload take: --set, --size-sweep, sizes and presets.

#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/plan.hpp"

namespace isthmus::harness {

/// Axes that workloads have beside their own for one kind of placement. They are in a case's settings only where they
/// change something, so that cases without them are the same as ever.
struct PlacementAxes {
  std::string_view placement;
  std::vector<const Axis*> axes;
};

std::vector<PlacementAxes> placement_axes(const Workload& workload);

/// What the user set an axis to, still as text.
struct Setting {
  std::string axis;
  std::vector<std::string> values;
};

/// Throws InputError for what is no setting, as the functions below do for one that no axis takes.
std::vector<Setting> parse_settings(const std::vector<std::string>& settings);
/// Refuses a setting whose axis a workload lacks, unless a glob picked that workload up beside others that have it.
void check_settings(const std::vector<Setting>& settings, const std::vector<const Workload*>& workloads,
                    const std::vector<std::string>& patterns, std::vector<std::string>* notices);
void check_size_sweep(const Request& request, const std::vector<const Workload*>& workloads,
                      const std::vector<Setting>& settings);

/// An axis and the values that it takes in turn.
struct AxisRange {
  std::string axis;
  std::vector<AxisValue> values;
};

/// The preset's sweep, and what runs on the axes that no size or preset settles. A size that nobody named gives way to
/// their default sweeps.
std::vector<AxisRange> ranges_of(const Workload& workload, const Size* named_size, const Preset* preset,
                                 const std::vector<Setting>& settings, bool size_sweep);
/// The product of the ranges; the last axis varies fastest.
std::vector<AxisSettings> points_of(const std::vector<AxisRange>& ranges);
/// Axis values of one case: default, then size, preset, and last this point of the ranges. `beside_paged`: the axes of
/// pages mean another placement of the same request, so that this case runs without them.
void settle_axes(CaseSpec& spec, const Size* size, const Preset* preset, const AxisSettings& point, bool beside_paged);

}  // namespace isthmus::harness
