#include "harness/plan/registry.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <stdexcept>

#include "device/api/device.hpp"
#include "harness/output.hpp"
#include "harness/plan/modes.hpp"
#include "harness/plan/names.hpp"
#include "memory/numa_nodes.hpp"
#include "workload/registry.hpp"

namespace isthmus::harness {

namespace {

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

/// Asked once: a driver takes a while to wake up. A broken one must not break `list`, but is said.
const Machine& this_machine() {
  static const Machine machine = [] {
    Machine found;
    try {
      found.gpus = std::max(1, device::count());
    } catch (const device::Error& error) {
      found.gpus = 1;
      say("the number of GPUs is not known, so workloads of one GPU only are made: " + sentence_of(error));
    }
    if (auto nodes = memory::usable_numa_nodes(); !nodes.empty()) found.memory_nodes = std::move(nodes);
    return found;
  }();
  return machine;
}

/// What the family makes for `machine`, in its order. A name that was made before stays what it was.
std::vector<const Workload*> members(const std::string& prefix, RegisteredFamily& family, const Machine& machine) {
  std::vector<const Workload*> list;
  std::set<std::string_view> names;
  for (auto& workload : family.make(machine)) {
    if (!workload.name().starts_with(prefix) || registered_workloads().contains(workload.name()))
      throw std::logic_error("family " + prefix + " makes a workload named " + workload.name() +
                             ", which is not its own; correct its names");
    workload::check_registration(workload);
    const std::string name = workload.name();
    const auto entry = family.made.try_emplace(name, std::move(workload)).first;
    if (!names.insert(entry->first).second)
      throw std::logic_error("family " + prefix + " makes two workloads named " + name);
    check_modes(entry->second);
    list.push_back(&entry->second);
  }
  return list;
}

/// Whether the glob can match a text that begins with `prefix`: asking the driver is put off until it must be.
bool may_match_below(std::string_view pattern, std::string_view prefix) noexcept {
  const auto literal = pattern.substr(0, pattern.find_first_of("*?"));
  return literal.starts_with(prefix) || (literal.size() < pattern.size() && prefix.starts_with(literal));
}

}  // namespace

void check_modes(const Workload& workload) {
  for (const auto& preset : workload.description().presets) {
    for (const auto& mode : preset.modes) {
      if (std::ranges::find(all_modes(), mode, &Mode::name) == all_modes().end())
        throw std::logic_error(workload.name() + " has preset " + preset.name + " of mode " + mode + ", which is none");
    }
  }
}

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
  for (auto& [prefix, family] : registered_families()) {
    if (!everywhere && !may_match_below(pattern, prefix)) continue;
    // This machine comes first, so that a name it has is never one that was made for a larger machine.
    const auto machine = machine_for(pattern);
    auto own = members(prefix, family, this_machine());
    if (machine != this_machine()) own = members(prefix, family, machine);
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

}  // namespace

std::vector<const Workload*> find_workloads(std::string_view pattern) {
  std::vector<const Workload*> found;
  for (const auto& [name, workload] : registered_workloads()) {
    if (!glob_match(pattern, name)) continue;
    check_modes(workload);
    found.push_back(&workload);
  }
  for (const auto* workload : expand(pattern)) {
    if (glob_match(pattern, workload->name())) found.push_back(workload);
  }
  return found;
}

std::string_view family_of(const Workload& workload) {
  for (const auto& [prefix, family] : registered_families()) {
    if (family.made.contains(workload.name())) return prefix;
  }
  return {};
}

std::vector<const Workload*> all_workloads() {
  return find_workloads("*");
}

std::vector<std::string> workload_names(std::string_view pattern) {
  std::vector<std::string> names;
  for (const auto& entry : registered_workloads()) names.push_back(entry.first);
  for (const auto* workload : expand(pattern, true)) names.push_back(workload->name());
  return names;
}

}  // namespace isthmus::harness
