#include "harness/plan/registry.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <set>
#include <stdexcept>

#include "device/device.hpp"
#include "harness/plan/names.hpp"
#include "memory/numa_nodes.hpp"

namespace isthmus::harness {

namespace {

/// Constructed at its first use: registrations run before main() in any order.
std::map<std::string, Workload>& registry() {
  static std::map<std::string, Workload> workloads;
  return workloads;
}

/// A family and what it has made so far; a map keeps its entries where they are.
struct MadeFamily {
  std::vector<Workload> (*make)(const Machine&) = nullptr;
  std::map<std::string, Workload, std::less<>> made;
};

std::map<std::string, MadeFamily>& families() {
  static std::map<std::string, MadeFamily> prefixes;
  return prefixes;
}

/// GPUs are worth a case each only up to here; a pattern that names more matches nothing.
constexpr int kMostNamed = 64;

/// Numbers that follow `word` in the text: "gpu" in "copy/gpu0-gpu12" gives 0 and 12.
std::vector<int> numbers_after(std::string_view word, std::string_view text) {
  std::vector<int> numbers;
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const auto digits = text.substr(at + word.size());
    int number = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (failure == std::errc{} && number >= 0 && number < kMostNamed) numbers.push_back(number);
  }
  return numbers;
}

/// Asked once: a driver takes a while to wake up. A broken or missing one must not break `list`; `run` reports it.
const Machine& this_machine() {
  static const Machine machine = [] {
    Machine found;
    try {
      found.gpus = std::max(1, device::count());
    } catch (const device::Error&) {
      found.gpus = 1;
    }
    if (auto nodes = memory::usable_numa_nodes(); !nodes.empty()) found.memory_nodes = std::move(nodes);
    return found;
  }();
  return machine;
}

bool operator==(const Machine& a, const Machine& b) {
  return a.gpus == b.gpus && a.memory_nodes == b.memory_nodes;
}

/// What the family makes for `machine`, in its order. A name that was made before stays what it was.
std::vector<const Workload*> members(const std::string& prefix, MadeFamily& family, const Machine& machine) {
  std::vector<const Workload*> list;
  std::set<std::string_view> names;
  for (auto& workload : family.make(machine)) {
    if (!workload.name().starts_with(prefix) || registry().contains(workload.name()))
      throw std::logic_error("family " + prefix + " makes a workload named " + workload.name() +
                             ", which is not its own; correct its names");
    workload::check_registration(workload);
    const std::string name = workload.name();
    const auto entry = family.made.try_emplace(name, std::move(workload)).first;
    if (!names.insert(entry->first).second)
      throw std::logic_error("family " + prefix + " makes two workloads named " + name);
    list.push_back(&entry->second);
  }
  return list;
}

/// Whether the glob can match a text that begins with `prefix`: asking the driver is put off until it must be.
bool may_match_below(std::string_view pattern, std::string_view prefix) noexcept {
  const auto literal = pattern.substr(0, pattern.find_first_of("*?"));
  return literal.starts_with(prefix) || (literal.size() < pattern.size() && prefix.starts_with(literal));
}

using memory::Placement;

constexpr Mode kModes[] = {
    {"baseline", Placement::pageable, Staging::direct}, {"async", Placement::pageable, Staging::async},
    {"uvm", Placement::managed_in, Staging::direct},    {"uvm_async", Placement::managed_in, Staging::async},
    {"pm", Placement::pinned, Staging::direct},         {"pm_async", Placement::pinned, Staging::async},
};

constexpr Staging kStagings[] = {Staging::none, Staging::direct, Staging::async, Staging::bulk};

constexpr std::string_view kMeasured[] = {
    "host_alloc",   "host_touch",  "device_alloc", "graph_build", "in",          "kernel",           "out",
    "free",         "first_in",    "first_kernel", "first_out",   "overlapped",  "sync_cost",        "overlap",
    "wall",         "paper_total", "in_rate",      "out_rate",    "kernel_rate", "kernel_flop_rate", "first_repeat",
    "later_repeat", "kernel_sum",  "turn_cost",    "body_in",     "body_out"};

template <class T>
const T* find_named(const std::vector<T>& list, std::string_view name) noexcept {
  const auto found = std::find_if(list.begin(), list.end(), [&](const T& entry) { return entry.name == name; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

}  // namespace isthmus::harness

// --- registration ----------------------------------------------------------------------------------

namespace isthmus::workload {

namespace {

/// What a record allows: lower case, digits and underscores; `separators` may stand between.
bool is_name(std::string_view text, std::string_view separators = "") {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto other = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && letter(text.front()) && std::all_of(text.begin(), text.end(), [&](char c) {
    return other(c) || separators.find(c) != std::string_view::npos;
  });
}

void check_settings(const Workload::Description& description, const std::string& whose, const AxisSettings& settings) {
  for (const auto& [axis, value] : settings) {
    const auto* declared = description.find_axis(axis);
    if (declared == nullptr) throw std::logic_error(whose + " sets axis " + axis + ", which is not declared");
    const bool known =
        declared->allowed.empty()
            ? std::holds_alternative<std::int64_t>(value) && std::get<std::int64_t>(value) >= declared->minimum
            : std::find(declared->allowed.begin(), declared->allowed.end(), value) != declared->allowed.end();
    if (!known)
      throw std::logic_error(whose + " sets axis " + axis + " to " + to_text(value) + ", which it does not take");
  }
}

}  // namespace

void check_registration(const Workload& workload) {
  const auto& description = workload.description();
  const auto& name = workload.name();
  const auto refuse = [&](const std::string& what) { throw std::logic_error(name + " " + what); };
  if (!is_name(name, "-./") || name.find('/') == std::string::npos)
    refuse("is no name of a workload: it is family/name in lower case");
  std::set<std::string_view> metrics, axes;
  for (const auto* list : {&description.metrics, &description.observed}) {
    for (const auto& metric : *list) {
      if (!is_name(metric)) refuse("declares metric '" + metric + "': a metric is named in lower case");
      if (!metrics.insert(metric).second) refuse("declares metric " + metric + " twice");
    }
  }
  for (const auto& axis : description.axes) {
    if (!is_name(axis.name)) refuse("declares axis '" + axis.name + "': an axis is named in lower case");
    if (!axes.insert(axis.name).second) refuse("declares axis " + axis.name + " twice");
    check_settings(description, name, {{axis.name, axis.default_value}});
  }
  for (const auto& size : description.sizes)
    check_settings(description, name + ", size " + size.name + ",", size.settings);
  for (const auto& preset : description.presets) {
    check_settings(description, name + ", preset " + preset.name + ",", preset.settings);
    for (const auto& size : preset.sizes) {
      if (description.find_size(size) == nullptr)
        refuse("has preset " + preset.name + " of size " + size + ", which is none");
    }
    for (const auto& value : preset.sweep)
      check_settings(description, name + ", preset " + preset.name + ",", {{preset.sweep_axis, value}});
  }
}

std::string_view name(Staging staging) noexcept {
  switch (staging) {
    case Staging::none:
      return "none";
    case Staging::direct:
      return "direct";
    case Staging::async:
      return "async";
    case Staging::bulk:
      return "bulk";
  }
  return "";
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string to_text(const AxisValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  return std::get<std::string>(value);
}

Workload::Workload(std::string name, std::function<void(Case&)> function)
    : name_(std::move(name)), description_(std::make_shared<Description>()) {
  description_->function = std::move(function);
}

Workload& Workload::version(int v) {
  description_->version = v;
  return *this;
}
Workload& Workload::summary(std::string text) {
  description_->summary = std::move(text);
  return *this;
}
Workload& Workload::source(std::string text) {
  description_->source = std::move(text);
  return *this;
}
Workload& Workload::tags(std::vector<std::string> tags) {
  description_->tags = std::move(tags);
  return *this;
}
Workload& Workload::placements(std::span<const memory::Placement> list) {
  description_->placements.assign(list.begin(), list.end());
  return *this;
}
Workload& Workload::stagings(std::vector<Staging> list) {
  description_->stagings = std::move(list);
  return *this;
}
Workload& Workload::axis(Axis axis) {
  description_->axes.push_back(std::move(axis));
  return *this;
}
Workload& Workload::size(std::string name, AxisSettings settings) {
  description_->sizes.push_back({std::move(name), std::move(settings)});
  return *this;
}
Workload& Workload::preset(Preset preset) {
  description_->presets.push_back(std::move(preset));
  return *this;
}
Workload& Workload::metrics(std::vector<std::string> names) {
  description_->metrics = std::move(names);
  return *this;
}
Workload& Workload::observed(std::vector<std::string> names) {
  description_->observed = std::move(names);
  return *this;
}
Workload& Workload::unverified(std::string reason) {
  description_->unverified = std::move(reason);
  return *this;
}
Workload& Workload::estimate(std::function<double(const CaseSpec&)> seconds) {
  description_->estimate = std::move(seconds);
  return *this;
}
Workload& Workload::devices(std::vector<int> indices) {
  description_->devices = std::move(indices);
  return *this;
}
Workload& Workload::native() {
  description_->native = true;
  return *this;
}
Workload& Workload::several_ranks() {
  description_->several_ranks = true;
  return *this;
}
const Workload::Description& Workload::description() const {
  return *description_;
}

const Axis* Workload::Description::find_axis(std::string_view name) const noexcept {
  return harness::find_named(axes, name);
}
const Size* Workload::Description::find_size(std::string_view name) const noexcept {
  return harness::find_named(sizes, name);
}
const Preset* Workload::Description::find_preset(std::string_view name) const noexcept {
  return harness::find_named(presets, name);
}

Registration::Registration(Workload workload) {
  std::string name = workload.name();
  check_registration(workload);
  if (!harness::registry().emplace(name, std::move(workload)).second)
    throw std::logic_error("two workloads are registered as " + name);
}

Family::Family(const std::string& prefix, std::vector<Workload> (*make)(const Machine&)) {
  if (!prefix.ends_with('/')) throw std::logic_error("the prefix of a family ends with a slash, unlike " + prefix);
  if (!harness::families().try_emplace(prefix, harness::MadeFamily{make, {}}).second)
    throw std::logic_error("two families are registered as " + prefix);
}

}  // namespace isthmus::workload

namespace isthmus::harness {

// --- look-up -----------------------------------------------------------------------------------------

Machine machine_for(std::string_view pattern) {
  Machine machine = this_machine();
  for (const int gpu : numbers_after("gpu", pattern)) machine.gpus = std::max(machine.gpus, gpu + 1);
  auto& nodes = machine.memory_nodes;
  for (const int node : numbers_after("node", pattern)) {
    const auto place = std::lower_bound(nodes.begin(), nodes.end(), node);
    if (place == nodes.end() || *place != node) nodes.insert(place, node);
  }
  return machine;
}

namespace {

/// The expansion of all families that `pattern` may reach into, matching or not.
std::vector<const Workload*> expand(std::string_view pattern, bool everywhere = false) {
  std::vector<const Workload*> list;
  for (auto& [prefix, family] : families()) {
    if (!everywhere && !may_match_below(pattern, prefix)) continue;
    // This machine comes first, so that a name it has is never one that was made for a larger machine.
    const auto machine = machine_for(pattern);
    auto own = members(prefix, family, this_machine());
    if (!(machine == this_machine())) own = members(prefix, family, machine);
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

}  // namespace

std::vector<const Workload*> find_workloads(std::string_view pattern) {
  std::vector<const Workload*> found;
  for (const auto& [name, workload] : registry()) {
    if (glob_match(pattern, name)) found.push_back(&workload);
  }
  for (const auto* workload : expand(pattern)) {
    if (glob_match(pattern, workload->name())) found.push_back(workload);
  }
  return found;
}

std::string_view family_of(const Workload& workload) {
  for (const auto& [prefix, family] : families()) {
    if (family.made.contains(workload.name())) return prefix;
  }
  return {};
}

std::vector<const Workload*> all_workloads() {
  return find_workloads("*");
}

std::vector<std::string> workload_names(std::string_view pattern) {
  std::vector<std::string> names;
  for (const auto& entry : registry()) names.push_back(entry.first);
  for (const auto* workload : expand(pattern, true)) names.push_back(workload->name());
  return names;
}

std::span<const Mode> all_modes() noexcept {
  return kModes;
}

const Mode* find_mode(std::string_view name) noexcept {
  for (const auto& mode : kModes) {
    if (mode.name == name) return &mode;
  }
  return nullptr;
}

const Mode* find_mode(memory::Placement placement, Staging staging) noexcept {
  for (const auto& mode : kModes) {
    if (mode.placement == placement && mode.staging == staging) return &mode;
  }
  return nullptr;
}

std::span<const Staging> all_stagings() noexcept {
  return kStagings;
}

std::optional<Staging> parse_staging(std::string_view text) noexcept {
  for (const auto staging : kStagings) {
    if (name(staging) == text) return staging;
  }
  return std::nullopt;
}

std::span<const std::string_view> measured_metrics() noexcept {
  return kMeasured;
}

}  // namespace isthmus::harness
