#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>

#include "paging/placement.hpp"
#include "workload/registry.hpp"

namespace isthmus::workload {

namespace {

template <class T>
const T* find_named(const std::vector<T>& list, std::string_view name) noexcept {
  const auto found = std::find_if(list.begin(), list.end(), [&](const T& entry) { return entry.name == name; });
  return found == list.end() ? nullptr : &*found;
}

/// Returns whether the name is valid in a record: lower case, digits and underscores, with `separators` in between.
bool is_name(std::string_view text, std::string_view separators = "") {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto other = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && letter(text.front()) && std::all_of(text.begin(), text.end(), [&](char c) {
    return other(c) || separators.find(c) != std::string_view::npos;
  });
}

void check_settings(const Workload::Description& description, const std::string& whose, const AxisSettings& settings) {
  std::set<std::string> axes;
  for (const auto& [axis, value] : settings) {
    if (!axes.insert(axis).second) throw std::logic_error(whose + " sets axis " + axis + " twice");
    const auto* declared = description.find_axis(axis);
    if (declared == nullptr) throw std::logic_error(whose + " sets axis " + axis + ", which is not declared");
    if (!takes(*declared, value))
      throw std::logic_error(whose + " sets axis " + axis + " to " + to_text(value) +
                             ", which is not one of its values");
  }
}

}  // namespace

void check_registration(const Workload& workload) {
  const auto& description = workload.description();
  const auto& name = workload.name();
  const auto refuse = [&](const std::string& what) { throw std::logic_error(name + " " + what); };
  if (!is_name(name, "-./") || name.find('/') == std::string::npos)
    refuse("is not a name of a workload: use family/name in lower case");
  std::set<std::string_view> metrics, axes;
  for (const auto* list : {&description.metrics, &description.observed}) {
    for (const auto& metric : *list) {
      if (!is_name(metric)) refuse("declares metric '" + metric + "': use lower case");
      if (!metrics.insert(metric).second) refuse("declares metric " + metric + " twice");
    }
  }
  for (const auto& axis : description.axes) {
    if (!is_name(axis.name)) refuse("declares axis '" + axis.name + "': use lower case");
    if (!axes.insert(axis.name).second) refuse("declares axis " + axis.name + " twice");
    check_settings(description, name, {{axis.name, axis.default_value}});
  }
  if (description.file) {
    const auto* axis = description.find_axis(description.file->axis);
    if (axis == nullptr || std::ranges::find(axis->choices, AxisValue("file")) == axis->choices.end())
      refuse("reads a file where axis " + description.file->axis + " is file, which is not one of its values");
    if (axis->how) refuse("has its file in axis " + axis->name + ", which determines how the work is done");
    if (description.find_axis(kInputFile) != nullptr)
      refuse("declares axis input_file, which is reserved for the file that it reads");
  }
  if (description.file_phase) {
    const auto* axis = description.find_axis(*description.file_phase);
    const auto takes = [&](const char* value) {
      return axis != nullptr && std::ranges::find(axis->choices, AxisValue(value)) != axis->choices.end();
    };
    if (!takes("generated") || !takes("written") || axis->how)
      refuse("has its file phase in axis " + *description.file_phase +
             ", which must have the values generated and written");
  }
  if (description.oversubscribed && !axes.contains(*description.oversubscribed))
    refuse("has its bytes in axis " + *description.oversubscribed + ", which is not declared");
  for (const auto& size : description.sizes)
    check_settings(description, name + ", size " + size.name + ",", size.settings);
  for (const auto& preset : description.presets) {
    check_settings(description, name + ", preset " + preset.name + ",", preset.settings);
    for (const auto& size : preset.sizes) {
      if (description.find_size(size) == nullptr)
        refuse("has preset " + preset.name + " of size " + size + ", which does not exist");
    }
    for (const auto& value : preset.sweep)
      check_settings(description, name + ", preset " + preset.name + ",", {{preset.sweep_axis, value}});
  }
}

std::string to_text(const AxisValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  return std::get<std::string>(value);
}

bool takes(const Axis& axis, const AxisValue& value) {
  if (!axis.choices.empty()) return std::ranges::find(axis.choices, value) != axis.choices.end();
  const auto* number = std::get_if<std::int64_t>(&value);
  return number != nullptr && *number >= axis.minimum;
}

bool writes_input(const CaseSpec& spec) {
  const auto& axis = spec.workload->description().file_phase;
  return axis && spec.choice(*axis) == "written";
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
  description_->placements.clear();
  std::ranges::copy_if(list, std::back_inserter(description_->placements),
                       [](const auto& placement) { return !placement->paged; });
  return *this;
}
Workload& Workload::paged() {
  description_->placements.push_back(paging::placement());
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
Workload& Workload::size(const std::string& name, const AxisSettings& settings) {
  auto& sizes = description_->sizes;
  auto known = std::ranges::find_if(sizes, [&](const auto& size) { return size.name == name; });
  if (known == sizes.end()) known = sizes.insert(known, {name, {}});
  known->settings.insert(known->settings.end(), settings.begin(), settings.end());
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
Workload& Workload::reported(std::vector<std::string> names) {
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
Workload& Workload::with_file(std::string axis, std::string variable, std::string kind, std::size_t most_bytes) {
  description_->file = {std::move(axis), std::move(variable), std::move(kind), most_bytes};
  return *this;
}
Workload& Workload::file_phase(std::string axis) {
  description_->file_phase = std::move(axis);
  return *this;
}
Workload& Workload::devices(std::vector<int> indices) {
  description_->devices = std::move(indices);
  return *this;
}
Workload& Workload::oversubscribes(std::string axis) {
  description_->oversubscribed = std::move(axis);
  return *this;
}
Workload& Workload::cpu_only() {
  description_->cpu_only = true;
  return *this;
}
Workload& Workload::no_flops() {
  description_->flops = false;
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
  return find_named(axes, name);
}
const Size* Workload::Description::find_size(std::string_view name) const noexcept {
  return find_named(sizes, name);
}
const Preset* Workload::Description::find_preset(std::string_view name) const noexcept {
  return find_named(presets, name);
}

// Constructed on first use, because registrations run before main() in unspecified order.
std::map<std::string, Workload>& registered_workloads() {
  static std::map<std::string, Workload> workloads;
  return workloads;
}

std::map<std::string, RegisteredFamily>& registered_families() {
  static std::map<std::string, RegisteredFamily> families;
  return families;
}

Registration::Registration(Workload workload) {
  std::string name = workload.name();
  check_registration(workload);
  if (!registered_workloads().emplace(name, std::move(workload)).second)
    throw std::logic_error("two workloads are registered as " + name);
}

Family::Family(const std::string& prefix, std::vector<Workload> (*make)(const Machine&)) {
  if (!prefix.ends_with('/')) throw std::logic_error("the prefix of a family must end with a slash, unlike " + prefix);
  if (!registered_families().try_emplace(prefix, RegisteredFamily{make, {}}).second)
    throw std::logic_error("two families are registered as " + prefix);
}

}  // namespace isthmus::workload
