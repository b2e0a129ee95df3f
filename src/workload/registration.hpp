#pragma once

// Registration of a workload: its name, what can be varied, what it measures.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/placement.hpp"
#include "workload/axis.hpp"
#include "workload/case.hpp"
#include "workload/staging.hpp"

namespace isthmus::workload {

class Workload;

/// One point of workload × placement × staging × size × axes, before anything runs.
struct CaseSpec {
  const Workload* workload = nullptr;
  std::optional<memory::Placement> placement;
  std::optional<Staging> staging;
  std::optional<std::string> size;
  std::optional<std::string> preset;
  AxisSettings axes;                          ///< settings of every axis of the workload, in the workload's order
  std::vector<std::string> varied;            ///< axes with several values in this run
  std::optional<std::string> not_applicable;  ///< reason why this combination is recorded as skipped
  std::optional<std::string> oversubscribed;  ///< text: by how much the case's managed bytes exceed the free memory

  const AxisValue* find(std::string_view axis) const noexcept;
  std::int64_t integer(std::string_view axis) const;
  std::string_view choice(std::string_view axis) const;
  /// Returns the case's name for progress lines and messages: "microbench/saxpy pinned×direct tiny threads=64".
  std::string label() const;
  bool operator==(const CaseSpec&) const = default;
};

struct Size {
  std::string name{};  ///< tiny small medium large super mega
  AxisSettings settings{};
};

struct Preset {
  std::string name{};       ///< "paper-fig10"
  std::string help{};       ///< name of the figure, and what the preset sets
  AxisSettings settings{};  ///< settings of every case of the preset
  std::vector<std::string> sizes{};
  std::string sweep_axis{};  ///< axis shown on the figure's horizontal axis; may be empty
  std::vector<AxisValue> sweep{};
  std::vector<std::string> modes{};  ///< mode aliases; empty: the modes that the user requested
  // Defaults for options that are not on the command line.
  int processes = 1;                   ///< number of fresh processes, one after the other; the selected workloads'
                                       ///< maximum is used
  std::optional<double> least_time{};  ///< minimum number of seconds for which samples are taken
};

/// Workload, with everything about it that can be varied. Calls are chained at registration.
class Workload {
 public:
  Workload(std::string name, std::function<void(Case&)> function);
  Workload& version(int v);  ///< increased whenever figures are no longer comparable with earlier ones
  Workload& summary(std::string text);
  Workload& source(std::string text);  ///< paper and section
  /// Sets the words by which checks are selected: the kind of workload, and a paper that measured it.
  Workload& tags(std::vector<std::string> tags);
  /// Declares that the workload's kernels do no floating-point work, so records have no kernel_flop_rate.
  Workload& no_flops();
  /// Sets the placements; a workload has none unless this is called (reference/*). Placements that the workload must
  /// support specially are left out; paged() adds them.
  Workload& placements(std::span<const memory::Placement> list);
  /// Declares that the workload's kernels can copy pages themselves and that measure() is passed the paged buffers:
  /// adds the placement `paged`.
  Workload& paged();
  Workload& stagings(std::vector<Staging> list);
  Workload& axis(Axis axis);
  /// Adds a size with these settings, or adds the settings to an existing size of this name.
  Workload& size(const std::string& name, const AxisSettings& settings);
  /// Adds tiny, small, medium, large, super and mega, in this order, one for each of `values`; each size sets all the
  /// axes to its value.
  Workload& sizes(const std::vector<std::string>& axes, const std::vector<std::int64_t>& values);
  Workload& preset(Preset preset);
  /// Declares the metrics that the workload samples itself (those of measure() need not be listed).
  Workload& metrics(std::vector<std::string> names);
  /// Declares metrics that a case has only if the machine reports them, such as the number of moved pages.
  Workload& reported(std::vector<std::string> names);
  /// Declares that results need no verification, and why (launch costs and the like).
  Workload& unverified(std::string reason);
  /// Sets a rough estimate of the seconds that one operation of a case takes; `run` uses it to predict the total time.
  /// Required of workloads that take their own samples; for those that call measure(), the time is estimated from their
  /// buffers (--dry-run).
  Workload& estimate(std::function<double(const CaseSpec&)> seconds);
  /// Declares that a case whose choice of `axis` is "file" reads the file named by the environment variable `variable`
  /// (Case::input_file()). `kind` tells users in messages what to name, such as "a .sg or .wsg file"; a file of more
  /// than `most_bytes` bytes is refused.
  Workload& with_file(std::string axis, std::string variable, std::string kind, std::size_t most_bytes);
  /// Declares a file phase for cases whose choice of `axis` is "written" rather than "generated": the inputs are first
  /// written to a scratch file, and after each allocation the file is read in a separate phase, `file`. Fills must be
  /// functions of an element's index. If with_file() has the same axis, the user's file is read in that phase too:
  /// Case::reads_file().
  Workload& file_phase(std::string axis);
  /// Sets the indices of the devices that the workload uses, for workloads whose names contain them: all devices go
  /// into the record, and the first is monitored. Devices that do not exist are left out. Without this call, the
  /// workload uses the session's devices.
  Workload& devices(std::vector<int> indices);
  /// Allows more managed memory than the device has (--oversubscribe): `axis` sets the number of bytes, in whole blocks
  /// of 2 MiB.
  Workload& oversubscribes(std::string axis);
  /// Declares that the workload uses no device, so that even on a machine without a GPU it is a true measurement:
  /// records have emulated: false.
  Workload& cpu_only();
  /// Declares that several ranks measure the workload together and a single process cannot; every other workload is
  /// measured by one process.
  Workload& several_ranks();

  const std::string& name() const { return name_; }
  struct Description;
  const Description& description() const;

 private:
  friend class Registration;
  std::string name_;
  std::shared_ptr<Description> description_;
};

inline Workload& Workload::sizes(const std::vector<std::string>& axes, const std::vector<std::int64_t>& values) {
  const char* name[] = {"tiny", "small", "medium", "large", "super", "mega"};
  for (std::size_t i = 0; i < values.size(); ++i) {
    AxisSettings settings;
    for (const auto& axis : axes) settings.emplace_back(axis, values[i]);
    size(name[i], settings);
  }
  return *this;
}

/// Registration of a workload with the program: define it as a namespace-scope constant in the workload's source file.
class Registration {
 public:
  Registration(Workload workload);
};

/// Machine for which a family of workloads is made.
struct Machine {
  int gpus = 1;
  std::vector<int> memory_nodes{0};  ///< NUMA nodes with usable memory, ascending; {0} if the kernel does not support
                                     ///< nodes
  bool operator==(const Machine&) const = default;
};

/// Workloads whose names contain the memories of this machine between which they move data. They are made when they are
/// first needed. Define it as a namespace-scope constant, like Registration. Every name begins with `prefix`, which
/// ends with a slash. A name means the same on every machine; `make` may also be called for a larger machine than this
/// one, because a name with a GPU or node that does not exist also makes a case, which the workload skips with the
/// reason.
class Family {
 public:
  Family(const std::string& prefix, std::vector<Workload> (*make)(const Machine&));
};

/// Calls several functions that make workloads and returns all the workloads, in the order of the functions.
template <std::vector<Workload> (*... make)(const Machine&)>
std::vector<Workload> all_of(const Machine& machine) {
  std::vector<Workload> all;
  (std::ranges::move(make(machine), std::back_inserter(all)), ...);
  return all;
}

}  // namespace isthmus::workload
