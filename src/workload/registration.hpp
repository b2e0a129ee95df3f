#pragma once

// What a workload says of itself, once: its name, what can be varied, what it measures.

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

/// One point of the product workload × placement × staging × size × axes, before anything runs.
struct CaseSpec {
  const Workload* workload = nullptr;
  std::optional<memory::Placement> placement;
  std::optional<Staging> staging;
  std::optional<std::string> size;
  std::optional<std::string> preset;
  AxisSettings axes;                          ///< every axis of the workload, in its order
  std::vector<std::string> varied;            ///< axes that take several values in this run
  std::optional<std::string> not_applicable;  ///< why this combination is recorded as skipped
  std::optional<std::string> oversubscribed;  ///< its managed bytes are more than the device has free, and by how much

  const AxisValue* find(std::string_view axis) const noexcept;
  std::int64_t integer(std::string_view axis) const;
  std::string_view choice(std::string_view axis) const;
  /// "microbench/saxpy pinned×direct tiny threads=64", for progress lines and messages.
  std::string label() const;
  bool operator==(const CaseSpec&) const = default;
};

struct Size {
  std::string name{};  ///< tiny small medium large super mega
  AxisSettings settings{};
};

struct Preset {
  std::string name{};       ///< "paper-fig10"
  std::string help{};       ///< figure, and what it sets
  AxisSettings settings{};  ///< fixed for every case of the preset
  std::vector<std::string> sizes{};
  std::string sweep_axis{};  ///< empty, or the axis that the figure's horizontal axis shows
  std::vector<AxisValue> sweep{};
  std::vector<std::string> modes{};  ///< mode aliases; empty: those asked for
  // What holds where the command line does not say.
  int processes = 1;                   ///< fresh ones, one after the other; the most that a selected workload wants
  std::optional<double> least_time{};  ///< seconds for which samples are taken at least
};

/// A workload and all that can be varied. Chained at registration.
class Workload {
 public:
  Workload(std::string name, std::function<void(Case&)> function);
  Workload& version(int v);  ///< raised whenever figures stop being comparable
  Workload& summary(std::string text);
  Workload& source(std::string text);  ///< paper and section
  /// Words that checks are chosen by: the kind of workload, and a paper that measured it.
  Workload& tags(std::vector<std::string> tags);
  /// Its kernels do no floating-point work, so its records have no kernel_flop_rate.
  Workload& no_flops();
  /// None unless called (reference/*). Those that need more of a workload are left out: paged() adds them.
  Workload& placements(std::span<const memory::Placement> list);
  /// Its kernels can fetch pages by themselves, and measure() is told of which buffers: adds the placement for that.
  Workload& paged();
  Workload& stagings(std::vector<Staging> list);
  Workload& axis(Axis axis);
  /// What a size sets; of a size that is there already, what else it sets.
  Workload& size(const std::string& name, const AxisSettings& settings);
  /// tiny, small, medium, large, super and mega in turn, as far as there are values: each sets all the axes to its
  /// value.
  Workload& sizes(const std::vector<std::string>& axes, const std::vector<std::int64_t>& values);
  Workload& preset(Preset preset);
  /// Names of the metrics that the workload samples by itself (measure()'s need not be listed).
  Workload& metrics(std::vector<std::string> names);
  /// Names of metrics that a case has only where the machine reports them, such as how many pages moved.
  Workload& observed(std::vector<std::string> names);
  /// Verification not needed, and why (launch costs and the like).
  Workload& unverified(std::string reason);
  /// Seconds of one operation of a case, roughly, so that `run` can say beforehand how long all of them take. Wanted of
  /// workloads with readings of their own; those that call measure() are estimated from their buffers (--dry-run).
  Workload& estimate(std::function<double(const CaseSpec&)> seconds);
  /// Where the choice `axis` is "file", a case reads the file that the environment variable names: Case::input_file().
  /// `kind` says in messages what to name, "a .sg or .wsg file"; one of more bytes is refused.
  Workload& with_file(std::string axis, std::string variable, std::string kind, std::size_t most_bytes);
  /// Where the choice `axis` is "written" and not "generated", what the inputs hold is written to a scratch file first,
  /// and each allocation reads it in a phase of its own, `file`. Fills must be functions of an element's number. Where
  /// with_file() has the same axis, "file" is read in that phase, too: Case::reads_file().
  Workload& file_phase(std::string axis);
  /// The devices it uses, by index, where its name says which: all of them go into the record, the first as the one
  /// that is watched. Those that are not there are left out. Without this it uses the session's.
  Workload& devices(std::vector<int> indices);
  /// May have more managed memory than the device has (--oversubscribe): `axis` is its bytes, in whole blocks of 2 MiB.
  Workload& oversubscribes(std::string axis);
  /// Uses no device, so it is a true measurement on a machine without a GPU, too: records say emulated: false.
  Workload& cpu_only();
  /// Several ranks measure it together, and one process cannot; every other workload is measured by one process.
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

/// The one line that makes a workload known: a namespace-scope constant in its source file.
class Registration {
 public:
  Registration(Workload workload);
};

/// What a family of workloads is made for.
struct Machine {
  int gpus = 1;
  std::vector<int> memory_nodes{0};  ///< NUMA nodes with usable memory, ascending; {0} where the kernel knows none
  bool operator==(const Machine&) const = default;
};

/// Workloads whose names say between which memories of this machine they move data: made when they are first asked for.
/// A namespace-scope constant, like Registration. `prefix` ends with a slash and begins every name. A name means the
/// same on every machine; `make` may also be called for a larger machine than this one, since a name of a GPU or a node
/// that is not there makes a case too, which the workload skips with the reason.
class Family {
 public:
  Family(const std::string& prefix, std::vector<Workload> (*make)(const Machine&));
};

/// What several of such functions make, in their order.
template <std::vector<Workload> (*... make)(const Machine&)>
std::vector<Workload> all_of(const Machine& machine) {
  std::vector<Workload> all;
  (std::ranges::move(make(machine), std::back_inserter(all)), ...);
  return all;
}

}  // namespace isthmus::workload
