#pragma once

// The names that requests and records share: modes, stagings, sizes, and the metrics of measure().

#include <array>
#include <span>
#include <string_view>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// An alias of placement × staging, as the pipelining paper calls it.
struct Mode {
  std::string_view name;
  std::string_view placement;
  Staging staging;
  bool operator==(const Mode&) const = default;
};
std::span<const Mode> all_modes() noexcept;
/// The alias of this pair, or nullptr.
const Mode* find_mode(memory::Placement placement, Staging staging) noexcept;

std::span<const Staging> all_stagings() noexcept;

/// The named sizes, smallest first.
inline constexpr std::array<std::string_view, 6> kSizes = {"tiny", "small", "medium", "large", "super", "mega"};

/// What every workload that calls Case::measure() reports where the placement has it, in the order of the record.
std::span<const std::string_view> measured_metrics() noexcept;

}  // namespace isthmus::harness
