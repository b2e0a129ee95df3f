#include "harness/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "harness/plan/axis_settings.hpp"
#include "harness/plan/names.hpp"
#include "workload/driver_prefetch.hpp"

namespace isthmus::harness {

namespace {

/// Returns the axes that the workload has in a paged placement.
std::vector<const Axis*> page_axes_of(const Workload& workload) {
  for (const auto& [placement, axes] : placement_axes(workload)) {
    if (placement == "paged") return axes;
  }
  return {};
}

/// Returns the Cartesian product of the ranges; the last axis varies fastest.
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

/// Sets an axis; returns false if it is not among `axes`.
bool assign(AxisSettings& axes, std::string_view name, const AxisValue& value) {
  const auto found = std::ranges::find(axes, name, &AxisSettings::value_type::first);
  if (found == axes.end()) return false;
  found->second = value;
  return true;
}

/// Sets the axis values of one case: the defaults, overridden by the size, then by the preset, and finally by this
/// point of the ranges. `beside_paged`: the request also has a paged placement, to which page axes apply, so cases of
/// other placements run without these axes.
void settle_axes(CaseSpec& spec, const Size* size, const Preset* preset, const AxisSettings& point, bool beside_paged) {
  const auto add = [&](const Axis& axis) { spec.axes.emplace_back(axis.name, axis.default_value); };
  std::ranges::for_each(spec.workload->description().axes, add);
  const auto pages = page_axes_of(*spec.workload);
  if (spec.placement && (*spec.placement)->paged) {
    for (const auto* axis : pages) add(*axis);
  }
  const auto apply = [&](const AxisSettings& values) {
    for (const auto& [axis, value] : values) assign(spec.axes, axis, value);
  };
  if (size != nullptr) apply(size->settings);
  if (preset != nullptr) apply(preset->settings);
  for (const auto& [axis, value] : point) {
    if (assign(spec.axes, axis, value) || value == AxisValue(std::string(kDriverPrefetchDefault))) continue;
    if (std::ranges::find(pages, axis, &Axis::name) != pages.end()) {
      if (!beside_paged && !spec.not_applicable)
        spec.not_applicable = fmt::format("axis {} is for placement paged, which was not requested", axis);
      continue;
    }
    spec.axes.emplace_back(axis, value);
    if (spec.placement && !(*spec.placement)->managed() && !spec.not_applicable)
      spec.not_applicable = fmt::format("axis {} is for managed memory, which placement {} does not use", axis,
                                        memory::name(*spec.placement));
  }
  // A case whose settings differ from those of the size must not have the size's name.
  if (size != nullptr) {
    for (const auto& setting : size->settings) {
      if (*spec.find(setting.first) != setting.second) spec.size.reset();
    }
  }
}

/// Returns a key that distinguishes a case from other cases of its workload.
std::string key_of(const CaseSpec& spec) {
  auto key = spec.label() + " " + spec.not_applicable.value_or("");
  for (const auto& [axis, value] : spec.axes) key += " " + axis + "=" + to_text(value);
  return key;
}

std::vector<CaseSpec> cases_of(const WorkloadRequest& request) {
  const auto& [workload, preset, combinations, sizes] = request;
  const bool beside_paged =
      std::ranges::any_of(combinations, [](const auto& each) { return each.placement && (*each.placement)->paged; });
  std::vector<CaseSpec> cases;
  std::set<std::string> keys;
  for (const auto& size : sizes) {
    std::vector<std::string> varied;
    for (const auto& range : size.ranges) {
      if (range.values.size() > 1 && !contains(varied, range.axis)) varied.push_back(range.axis);
    }
    // Placements vary fastest, so that cases with the same inputs follow one another and the inputs are made once.
    for (const auto& point : points_of(size.ranges)) {
      for (const auto& combination : combinations) {
        CaseSpec spec = combination;
        spec.size = size.name;
        spec.varied = varied;
        if (size.not_applicable) spec.not_applicable = size.not_applicable;
        settle_axes(spec, size.size, preset, point, beside_paged);
        // Two sizes, or two points of a preset, yield the same case if a setting makes them equal.
        if (keys.insert(key_of(spec)).second) cases.push_back(std::move(spec));
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<CaseSpec> plan(const Request& request) {
  std::vector<CaseSpec> cases;
  for (const auto& workload : request.workloads) std::ranges::move(cases_of(workload), std::back_inserter(cases));
  return cases;
}

}  // namespace isthmus::harness
