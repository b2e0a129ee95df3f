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

/// Exclusive upper limit of GPU and node numbers in patterns. For more GPUs, one case per GPU would not be useful. A
/// pattern with a larger number matches nothing.
constexpr int kMostNamed = 64;

/// Returns the numbers that follow `word` in the text: "gpu" in "copy/gpu0-gpu12" gives 0 and 12.
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

/// Returns this machine. It is queried once, because waking a driver takes a while. A broken driver is reported but
/// must not break `list`.
const Machine& this_machine() {
  static const Machine machine = [] {
    Machine found;
    try {
      found.gpus = std::max(1, device::count());
    } catch (const device::Error& error) {
      found.gpus = 1;
      say("the number of GPUs is unknown, so only workloads for one GPU are listed: " + sentence_of(error));
    }
    if (auto nodes = memory::usable_numa_nodes(); !nodes.empty()) found.memory_nodes = std::move(nodes);
    return found;
  }();
  return machine;
}

/// Returns the workloads that the family makes for `machine`, in the family's order. A workload that was made earlier
/// under the same name is kept.
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

/// Returns whether the glob can match a text that begins with `prefix`. The driver need not be queried for a family
/// that the glob cannot match.
bool may_match_below(std::string_view pattern, std::string_view prefix) noexcept {
  const auto literal = pattern.substr(0, pattern.find_first_of("*?"));
  return literal.starts_with(prefix) || (literal.size() < pattern.size() && prefix.starts_with(literal));
}

}  // namespace

void check_modes(const Workload& workload) {
  for (const auto& preset : workload.description().presets) {
    for (const auto& mode : preset.modes) {
      if (std::ranges::find(all_modes(), mode, &Mode::name) == all_modes().end())
        throw std::logic_error(workload.name() + " has preset " + preset.name + " of mode " + mode +
                               ", which does not exist");
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

/// Returns all members of every family with names that `pattern` may match, including members that it does not match.
/// With `everywhere`, returns the members of all families.
std::vector<const Workload*> expand(std::string_view pattern, bool everywhere = false) {
  std::vector<const Workload*> list;
  for (auto& [prefix, family] : registered_families()) {
    if (!everywhere && !may_match_below(pattern, prefix)) continue;
    // Members are made for this machine first, so that a name that exists here is never made for a larger machine.
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
