#pragma once

// Template parameters of kernels that are chosen at run time; the same list defines the allowed values of an axis.

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "workload/axis.hpp"

namespace isthmus::workload {

template <auto value>
using Constant = std::integral_constant<decltype(value), value>;

/// List of numbers that a template parameter can have.
template <auto... values>
struct Choices {
  static std::vector<AxisValue> allowed() { return {AxisValue(values)...}; }
  /// Calls use(Constant<v>) for the list's number v that equals `value`.
  template <class Use>
  static void with(std::int64_t value, Use&& use) {
    ((value == std::int64_t{values} ? use(Constant<values>{}) : void()), ...);
  }
};

/// List of tile shapes, each a type with a `name`.
template <class... Tiles>
struct TileChoices {
  static std::vector<AxisValue> allowed() { return {AxisValue(std::string(Tiles::name))...}; }
  template <class Use>
  static void with(std::string_view name, Use&& use) {
    ((name == Tiles::name ? use(Tiles{}) : void()), ...);
  }
};

}  // namespace isthmus::workload
