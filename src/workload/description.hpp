#pragma once

// Contents of a registration, for the code that runs workloads; authors include registration.hpp.

#include "workload/registration.hpp"

namespace isthmus::workload {

/// Arguments of with_file().
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
  std::function<double(const CaseSpec&)> estimate;  ///< empty: no estimate
  std::optional<FileRule> file;
  std::optional<std::string> file_phase;      ///< axis that chooses where the input is when a case begins
  std::vector<int> devices;                   ///< empty: the session's devices
  std::optional<std::string> oversubscribed;  ///< axis that sets the managed bytes, if they may exceed device memory
  bool cpu_only = false, several_ranks = false;
  bool flops = true;  ///< the workload's kernels do floating-point work

  const Axis* find_axis(std::string_view name) const noexcept;
  const Size* find_size(std::string_view name) const noexcept;
  const Preset* find_preset(std::string_view name) const noexcept;
};

/// Name of the axis in a record that distinguishes cases with different files; the value is the beginning of the file's
/// hash.
inline constexpr const char* kInputFile = "input_file";

std::string to_text(const AxisValue& value);

/// Returns whether the axis accepts the value: one of the axis's choices, or a number that is not below its minimum.
bool takes(const Axis& axis, const AxisValue& value);

/// Returns whether the case first writes its input to a file and then reads it in a separate phase.
bool writes_input(const CaseSpec& spec);

/// Throws std::logic_error for errors that would break every record of the workload: an invalid name, or a size or
/// preset that sets an axis to a value it does not accept.
void check_registration(const Workload& workload);

}  // namespace isthmus::workload
