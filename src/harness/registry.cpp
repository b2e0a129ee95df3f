#include "harness/registry.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>

#include "harness/names.hpp"

namespace isthmus::harness {

namespace {

/// Constructed at its first use: registrations run before main() in any order.
std::map<std::string, Workload>& registry() {
  static std::map<std::string, Workload> workloads;
  return workloads;
}

using memory::Placement;

constexpr Mode kModes[] = {
    {"baseline", Placement::pageable, Staging::direct}, {"async", Placement::pageable, Staging::async},
    {"uvm", Placement::managed_in, Staging::direct},    {"uvm_async", Placement::managed_in, Staging::async},
    {"pm", Placement::pinned, Staging::direct},         {"pm_async", Placement::pinned, Staging::async},
};

constexpr Staging kStagings[] = {Staging::none, Staging::direct, Staging::async, Staging::bulk};

constexpr std::string_view kMeasured[] = {
    "host_alloc",  "host_touch",   "device_alloc", "in",          "kernel",          "out",     "free",
    "first_in",    "first_kernel", "first_out",    "overlapped",  "sync_cost",       "overlap", "wall",
    "paper_total", "in_rate",      "out_rate",     "kernel_rate", "kernel_flop_rate"};

template <class T>
const T* find_named(const std::vector<T>& list, std::string_view name) noexcept {
  const auto found = std::find_if(list.begin(), list.end(), [&](const T& entry) { return entry.name == name; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

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

// --- registration ----------------------------------------------------------------------------------

Workload::Workload(std::string name, void (*function)(Case&))
    : name_(std::move(name)), description_(std::make_shared<Description>()) {
  description_->function = function;
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
Workload& Workload::unverified(std::string reason) {
  description_->unverified = std::move(reason);
  return *this;
}
Workload& Workload::native() {
  description_->native = true;
  return *this;
}
const Workload::Description& Workload::description() const {
  return *description_;
}

const Axis* Workload::Description::find_axis(std::string_view name) const noexcept {
  return find_named(axes, name);
}
const Size* Workload::Description::find_size(std::string_view name) const noexcept {
  return find_named(sizes, name);
}
const Preset* Workload::Description::find_preset(std::string_view name) const noexcept {
  return find_named(presets, name);
}

Registration::Registration(Workload workload) {
  std::string name = workload.name();
  if (!registry().emplace(name, std::move(workload)).second)
    throw std::logic_error("two workloads are registered as " + name);
}

// --- look-up -----------------------------------------------------------------------------------------

std::vector<const Workload*> find_workloads(std::string_view pattern) {
  std::vector<const Workload*> found;
  for (const auto& [name, workload] : registry()) {
    if (glob_match(pattern, name)) found.push_back(&workload);
  }
  return found;
}

std::vector<const Workload*> all_workloads() {
  return find_workloads("*");
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const auto& entry : registry()) names.push_back(entry.first);
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
