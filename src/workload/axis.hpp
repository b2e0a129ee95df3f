#pragma once

// What of a workload can be varied.

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isthmus::workload {

/// A number or a word.
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
  bool bytes = false;  ///< a number of bytes: may be written 4KiB, 64MiB, 1GiB
  /// Says how the work is done and not what it is: cases that differ in it only have the same inputs and results.
  bool how = false;
  /// What runs where the user names neither this axis nor a size or preset that sets it; empty: default_value.
  std::vector<AxisValue> default_sweep{};
  /// What `--set axis=all` runs where there are no choices; empty: size_sweep.
  std::vector<AxisValue> all_values{};
  std::vector<AxisValue> size_sweep{};  ///< what --size-sweep runs

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

/// The first value is the default.
inline Axis choice_axis(std::string name, std::string help, std::vector<AxisValue> choices) {
  auto first = choices.front();
  return {.name = std::move(name), .help = std::move(help), .default_value = first, .choices = std::move(choices)};
}

/// The same axis as one that says how the work is done.
inline Axis how(Axis axis) {
  axis.how = true;
  return axis;
}

/// Powers of two.
inline std::vector<AxisValue> powers(std::int64_t from, std::int64_t to) {
  std::vector<AxisValue> values;
  for (std::int64_t value = from; value <= to; value *= 2) values.emplace_back(value);
  return values;
}

/// The values of this axis are how a queued body is submitted; `automatic` chooses by the number of launches.
inline Axis submission_axis() {
  return how(choice_axis("submission", "how a pass is submitted: launch by launch, or as one graph",
                         {"automatic", "stream", "graph"}));
}

}  // namespace isthmus::workload
