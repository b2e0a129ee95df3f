#pragma once

// What a registration says, for who runs workloads; authors write registration.hpp.

#include "workload/registration.hpp"

namespace isthmus::workload {

/// What with_file() says.
struct FileRule {
  std::string axis, variable, kind;
  std::size_t most_bytes = 0;
};

struct Workload::Description {
  std::function<void(Case&)> function;
  int version = 1;
  std::string summary, source;
  std::vector<std::string> tags;
  std::vector<memory::Placement> placements;
  std::vector<Staging> stagings;
  std::vector<Axis> axes;
  std::vector<Size> sizes;
  std::vector<Preset> presets;
  std::vector<std::string> metrics, observed;
  std::optional<std::string> unverified;
  std::function<double(const CaseSpec&)> estimate;  ///< empty: nothing is known
  std::optional<FileRule> file;
  std::optional<std::string> file_phase;      ///< the axis that says where the input is when a case begins
  std::vector<int> devices;                   ///< empty: the session's
  std::optional<std::string> oversubscribed;  ///< the axis of its managed bytes, where those may be too many
  bool cpu_only = false, several_ranks = false;
  bool flops = true;  ///< its kernels do floating-point work

  const Axis* find_axis(std::string_view name) const noexcept;
  const Size* find_size(std::string_view name) const noexcept;
  const Preset* find_preset(std::string_view name) const noexcept;
};

/// The axis of a record that keeps cases of two files apart; its value begins the file's hash.
inline constexpr const char* kInputFile = "input_file";

std::string to_text(const AxisValue& value);

/// Whether the axis can have the value: one of its choices, else a number that is not below its minimum.
bool takes(const Axis& axis, const AxisValue& value);

/// Whether the case's input is written to a file first, and read from it in a phase of its own.
bool writes_input(const CaseSpec& spec);

/// Throws std::logic_error for what would break each of the workload's records: a name that is none, a size or preset
/// that sets an axis to what it does not take.
void check_registration(const Workload& workload);

}  // namespace isthmus::workload
