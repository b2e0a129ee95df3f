#include "harness/program/list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/plan/axis_settings.hpp"
#include "harness/plan/modes.hpp"
#include "harness/plan/names.hpp"
#include "harness/plan/registry.hpp"
#include "harness/plan/request.hpp"
#include "harness/program/choose_device.hpp"
#include "harness/record/facts_json.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

json value_json(const AxisValue& value) {
  return std::visit([](const auto& v) { return json(v); }, value);
}

json settings_json(const AxisSettings& settings) {
  json object = json::object();
  for (const auto& [axis, value] : settings) object[axis] = value_json(value);
  return object;
}

json values_json(const std::vector<AxisValue>& values) {
  return mapped(values, value_json);
}

/// Returns the names of placements or stagings.
auto names_of(const auto& list) {
  using memory::name, workload::name;
  return mapped(list, [](auto each) { return std::string(name(each)); });
}

json axis_json(const Axis& axis) {
  return {{"name", axis.name},
          {"help", axis.help},
          {"default", value_json(axis.default_value)},
          {"choices", axis.choices.empty() ? json(nullptr) : values_json(axis.choices)},
          {"minimum", axis.minimum},
          {"bytes", axis.bytes},
          {"default_sweep", values_json(axis.default_sweep)},
          {"all_values", values_json(axis.all_values)},
          {"size_sweep", values_json(axis.size_sweep)}};
}

json preset_json(const Preset& preset) {
  return {{"name", preset.name},
          {"help", preset.help},
          {"settings", settings_json(preset.settings)},
          {"sizes", preset.sizes},
          {"sweep_axis", preset.sweep_axis.empty() ? json(nullptr) : json(preset.sweep_axis)},
          {"sweep", values_json(preset.sweep)},
          {"modes", preset.modes},
          {"processes", preset.processes},
          {"least_time", preset.least_time ? json(*preset.least_time) : json(nullptr)}};
}

json workload_json(const Workload& workload) {
  const auto& description = workload.description();
  json entry = {{"name", workload.name()},
                {"version", description.version},
                {"summary", description.summary},
                {"source", description.source},
                {"tags", description.tags},
                {"placements", names_of(description.placements)},
                {"stagings", names_of(description.stagings)},
                {"axes", mapped(description.axes, axis_json)},
                {"placement_axes", json::object()},
                {"sizes", json::object()},
                {"presets", mapped(description.presets, preset_json)},
                {"metrics", json::array()},
                {"cpu_only", description.cpu_only},
                {"observed", description.observed},
                {"family", nullptr}};
  if (const auto family = family_of(workload); !family.empty()) entry["family"] = family;
  for (const auto& [placement, axes] : placement_axes(workload)) {
    entry["placement_axes"][std::string(placement)] = mapped(axes, [](const Axis* axis) { return axis_json(*axis); });
  }
  for (const auto& size : description.sizes) entry["sizes"][size.name] = settings_json(size.settings);
  if (!description.placements.empty()) {
    for (const auto metric : measured_metrics()) {
      if (description.flops || metric != "kernel_flop_rate") entry["metrics"].push_back(metric);
    }
  }
  for (const auto& metric : description.metrics) entry["metrics"].push_back(metric);
  return entry;
}

std::string value_text(const Axis& axis, const AxisValue& value) {
  const auto* number = std::get_if<std::int64_t>(&value);
  return axis.bytes && number != nullptr ? memory::exact_bytes(*number) : to_text(value);
}

/// Formats an axis as "threads=64", or as "bytes=4KiB,64MiB" if several values run by default; adds the range of
/// --size-sweep.
std::string axis_text(const Axis& axis) {
  std::vector<std::string> values;
  for (const auto& value : axis.default_sweep) values.push_back(value_text(axis, value));
  if (values.empty()) values.push_back(value_text(axis, axis.default_value));
  std::string text = axis.name + "=" + join(values, ",");
  if (!axis.size_sweep.empty())
    text += fmt::format(" ({} to {} by --size-sweep)", value_text(axis, axis.size_sweep.front()),
                        value_text(axis, axis.size_sweep.back()));
  return text;
}

constexpr std::size_t kColumns = 80;

/// Formats words after a label, on as many lines as needed. A word longer than a line is broken after commas.
std::string words_text(std::string_view label, const std::vector<std::string>& words) {
  std::string text;
  std::string line(label);
  bool first = true;
  const auto end_line = [&] {
    text += line + "\n";
    line.assign(label.size(), ' ');
    first = true;
  };
  for (std::string_view word : words) {
    if (!first && line.size() + 1 + word.size() > kColumns) end_line();
    while (first && line.size() + word.size() > kColumns) {
      const auto comma = word.rfind(',', kColumns - line.size() - 1);
      if (comma == std::string_view::npos) break;
      line += word.substr(0, comma + 1);
      word.remove_prefix(comma + 1);
      end_line();
    }
    if (!first) line += ' ';
    line += word;
    first = false;
  }
  return text + line + "\n";
}

/// Formats a workload with everything that can be varied.
std::string details_text(const Workload& workload) {
  const auto& description = workload.description();
  std::string text = workload.name() + "\n" + words_text("    ", split(description.summary, ' '));
  const auto line = [&](std::string_view what, const std::vector<std::string>& words) {
    if (!words.empty()) text += words_text(fmt::format("    {:<11}", what), words);
  };
  const auto name_of = [](const auto& each) { return each.name; };
  line("placements", names_of(description.placements));
  line("stagings", names_of(description.stagings));
  line("sizes", mapped(description.sizes, name_of));
  line("axes", mapped(description.axes, axis_text));
  for (const auto& [placement, axes] : placement_axes(workload)) {
    line(fmt::format("of {}", placement), mapped(axes, [](const Axis* axis) { return axis_text(*axis); }));
  }
  line("presets", mapped(description.presets, name_of));
  return text;
}

/// Formats a family's members, one line each, because there may be hundreds.
std::string family_text(std::string_view family, const std::vector<const Workload*>& members) {
  std::size_t width = 0;
  for (const auto* workload : members) width = std::max(width, workload->name().size());
  std::string text = fmt::format("{}*: {} workloads; list a few of them to see their axes\n", family, members.size());
  for (const auto* workload : members) {
    std::string line = fmt::format("    {:<{}}  {}", workload->name(), width, workload->description().summary);
    if (line.size() > kColumns) line = line.substr(0, kColumns - 1) + "~";
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string list_text(const std::string& pattern) {
  constexpr std::size_t kFew = 4;
  std::vector<std::pair<std::string_view, std::vector<const Workload*>>> families;
  std::string text;
  for (const auto* workload : select_workloads({pattern})) {
    const auto family = family_of(*workload);
    if (family.empty()) {
      text += details_text(*workload);
    } else {
      if (families.empty() || families.back().first != family)
        families.emplace_back(family, std::vector<const Workload*>{});
      families.back().second.push_back(workload);
    }
  }
  for (const auto& [family, members] : families) {
    if (members.size() > kFew) {
      text += family_text(family, members);
      continue;
    }
    for (const auto* workload : members) text += details_text(*workload);
  }
  return text;
}

std::string list_json(const std::string& pattern) {
  json document = {{"workloads", json::array()},
                   {"modes", json::object()},
                   {"placements", names_of(memory::all_placements())},
                   {"stagings", names_of(all_stagings())},
                   {"sizes", kSizes}};
  for (const auto* workload : select_workloads({pattern})) document["workloads"].push_back(workload_json(*workload));
  for (const auto& mode : all_modes())
    document["modes"][std::string(mode.name)] = {{"placement", mode.placement}, {"staging", name(mode.staging)}};
  return document.dump(2);
}

namespace {

/// Formats a count: "1 core", "2 NUMA nodes", "an unknown number of cores".
std::string counted(const json& count, std::string_view what) {
  if (count.is_null()) return fmt::format("an unknown number of {}s", what);
  return fmt::format("{} {}{}", count.get<int>(), what, count == 1 ? "" : "s");
}

}  // namespace

Info info() {
  Info found;
  json devices = json::array();
  std::string device_lines;
  try {
    const int count = device::count();
    for (int index = 0; index < count; ++index) {
      const auto device = device::info(index);
      devices.push_back(device_json(device, device::telemetry(index), std::nullopt));
      device_lines += fmt::format("device {}   {} ({}), {}, uuid {}\n", index, device.name, device.arch,
                                  memory::format_bytes(static_cast<double>(device.memory_bytes)), device.uuid);
    }
    if (count == 0) found.problem = no_device_sentence();
  } catch (const device::Error& error) {
    found.problem = error.what();
  }
  const auto backend = device::backend();
  const json host = host_json();
  json injectable = json::array();
  for (const auto call : device::injectable_calls()) injectable.push_back(call);
  const json document = {{"backend", device::name(backend)},
                         {"injectable_calls", injectable},
                         {"emulated", backend == device::Backend::emulator},
                         {"devices", devices},
                         {"host", host},
                         {"build", build_json()},
                         {"problem", found.problem.empty() ? json(nullptr) : json(found.problem)}};
  found.json = document.dump(2);
  found.text = fmt::format(
      "backend    {}{}\n{}host       {}, {}, {}\nsystem     {}, {}\nbuild      {}, {}\n", device::name(backend),
      backend == device::Backend::emulator ? " (device times mean nothing)" : "", device_lines,
      host["cpu"].get<std::string>(), counted(host["cores"], "core"), counted(host["numa_nodes"], "NUMA node"),
      host["os"].is_string() ? host["os"].get<std::string>() : "unknown system", host["kernel"].get<std::string>(),
      build_json()["compiler"].get<std::string>(), build_json()["type"].get<std::string>());
  if (!found.problem.empty()) found.text += "problem    " + found.problem + "\n";
  return found;
}

}  // namespace isthmus::harness
