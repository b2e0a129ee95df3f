#pragma once

// Names that requests and records share: modes, stagings, sizes, and the metrics of measure().

#include <array>
#include <span>
#include <string_view>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// Named pair of placement and staging. The names are those of the pipelining paper.
struct Mode {
  std::string_view name;
  std::string_view placement;
  Staging staging;
  bool operator==(const Mode&) const = default;
};
std::span<const Mode> all_modes() noexcept;
/// Returns the mode of this pair; nullptr if there is none.
const Mode* find_mode(memory::Placement placement, Staging staging) noexcept;

std::span<const Staging> all_stagings() noexcept;

/// Named sizes, smallest first.
inline constexpr std::array<std::string_view, 6> kSizes = {"tiny", "small", "medium", "large", "super", "mega"};

/// Returns the metrics of Case::measure(), in the order of the record. A workload that calls it reports those that
/// apply to its placement.
std::span<const std::string_view> measured_metrics() noexcept;

}  // namespace isthmus::harness
