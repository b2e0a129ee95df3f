#pragma once

// Axes: properties of a workload that can be varied, with their values.

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isthmus::workload {

/// Value of an axis: a number or a word.
struct AxisValue : std::variant<std::int64_t, std::string> {
  AxisValue() = default;
  template <std::integral I>
  AxisValue(I number) : variant(static_cast<std::int64_t>(number)) {}
  AxisValue(std::string word) : variant(std::move(word)) {}
  AxisValue(const char* word) : variant(std::string(word)) {}
};

struct Axis {
  std::string name{};  ///< lower case
  std::string help{};
  AxisValue default_value{};
  std::vector<AxisValue> choices{};  ///< empty: any integer ≥ minimum
  std::int64_t minimum = 0;
  bool bytes = false;  ///< the value is a number of bytes and may be written 4KiB, 64MiB, 1GiB
  /// True if the axis chooses a method of doing the work, not the work: cases that differ only in this axis have the
  /// same inputs and results.
  bool how = false;
  /// Values that are run if the user names neither this axis nor a size or preset that sets it; empty: default_value.
  std::vector<AxisValue> default_sweep{};
  /// Values that are run by `--set axis=all` for an axis without choices; empty: size_sweep.
  std::vector<AxisValue> all_values{};
  std::vector<AxisValue> size_sweep{};  ///< values that are run by --size-sweep

  Axis with_default_sweep(std::vector<AxisValue> values) && {
    default_sweep = std::move(values);
    return std::move(*this);
  }
  Axis with_default_sweep_of_all() && {
    default_sweep = choices;
    return std::move(*this);
  }
  Axis with_all_values(std::vector<AxisValue> values) && {
    all_values = std::move(values);
    return std::move(*this);
  }
  Axis with_size_sweep(std::vector<AxisValue> values) && {
    size_sweep = std::move(values);
    return std::move(*this);
  }
};

using AxisSettings = std::vector<std::pair<std::string, AxisValue>>;

inline Axis number_axis(std::string name, std::string help, std::int64_t value, std::int64_t minimum = 1) {
  return {.name = std::move(name), .help = std::move(help), .default_value = value, .choices = {}, .minimum = minimum};
}

inline Axis bytes_axis(std::string name, std::string help, std::int64_t value, std::int64_t minimum = 1) {
  auto axis = number_axis(std::move(name), std::move(help), value, minimum);
  axis.bytes = true;
  return axis;
}

/// Returns an axis with a fixed set of values, the first of which is the default.
inline Axis choice_axis(std::string name, std::string help, std::vector<AxisValue> choices) {
  auto first = choices.front();
  return {.name = std::move(name), .help = std::move(help), .default_value = first, .choices = std::move(choices)};
}

/// Returns the axis, marked as one that chooses a method of doing the work (Axis::how).
inline Axis how(Axis axis) {
  axis.how = true;
  return axis;
}

/// Returns the powers of two `from`, 2 * `from`, … up to `to`.
inline std::vector<AxisValue> powers(std::int64_t from, std::int64_t to) {
  std::vector<AxisValue> values;
  for (std::int64_t value = from; value <= to; value *= 2) values.emplace_back(value);
  return values;
}

/// Returns the axis that chooses how a queued body is submitted; `automatic` decides by the number of launches.
inline Axis submission_axis() {
  return how(choice_axis("submission", "how a pass is submitted: launch by launch, or as one graph",
                         {"automatic", "stream", "graph"}));
}

}  // namespace isthmus::workload
