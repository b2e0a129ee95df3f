#include "harness/program/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/plan/names.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : "-";
}

std::string cut_to(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 1) + "~";
  return text;
}

/// Without its family where the whole name does not fit.
std::string short_name(const std::string& name, std::size_t width) {
  const auto slash = name.find('/');
  return cut_to(name.size() > width && slash != std::string::npos ? name.substr(slash + 1) : name, width);
}

const json* find_metric(const json& record, std::string_view name) {
  for (const auto& metric : record.at("metrics")) {
    if (metric.at("name") == name) return &metric;
  }
  return nullptr;
}

}  // namespace

std::string outcome_of(const json& record) {
  if (!record.at("error").is_null()) return "FAILED";
  if (!record.at("skipped").is_null()) return "skipped";
  const auto status = record.at("verify").at("status").get<std::string>();
  return status == "fail" ? "WRONG" : status == "not_applicable" ? "ok" : status;
}

std::string format_quantity(double value, const std::string& unit) {
  if (unit == "1") return fmt::format("{:.3g}", value);
  constexpr double kRoundsUp = 0.9995;  // of a prefix: what three digits would show as the next one counts as that
  constexpr std::pair<double, const char*> kPrefixes[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"},  {1e6, "M"},
                                                          {1e3, "k"},  {1, ""},     {1e-3, "m"}, {1e-6, "µ"},
                                                          {1e-9, "n"}, {1e-12, "p"}};
  const auto prefix = std::ranges::find_if(kPrefixes, [&](const auto& each) {
    // 12000 s, not 12 ks; and 0.4 /s, not 400 m/s, which are metres per second.
    const bool has_none = (unit == "s" && each.first > 1) || (unit == "1/s" && each.first < 1);
    return !has_none && std::abs(value) >= each.first * kRoundsUp;
  });
  const std::string shown = unit == "1/s" ? "/s" : unit;  // 5.00 M/s
  if (prefix == std::end(kPrefixes)) return fmt::format("{:.3g} {}", value, shown);
  const double scaled = value / prefix->first;
  const int decimals = std::abs(scaled) >= 99.95 ? 0 : std::abs(scaled) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", scaled, decimals, prefix->second, shown);
}

namespace {

std::string median_of(const json* metric) {
  if (metric == nullptr) return "-";
  const auto& value = metric->at("median");
  return value.is_number() ? format_quantity(value.get<double>(), metric->at("unit").get<std::string>()) : "invalid";
}

/// Cases with phases: one row each.
std::string phases_text(const std::vector<const json*>& records) {
  std::string text = fmt::format("{:<19} {:<14} {:<6} {:<6} {:>7} {:>7} {:>7}\n", "workload", "placement", "stage",
                                 "size", "in", "kernel", "out");
  for (const json* record : records) {
    text += fmt::format(
        "{:<19} {:<14} {:<6} {:<6} {:>7} {:>7} {:>7} {}\n", short_name(record->at("workload").get<std::string>(), 19),
        cut_to(text_of(record->at("placement")), 14), cut_to(text_of(record->at("staging")), 6),
        cut_to(text_of(record->at("size")), 6), median_of(find_metric(*record, "in")),
        median_of(find_metric(*record, "kernel")), median_of(find_metric(*record, "out")), outcome_of(*record));
  }
  return text;
}

/// (workload, axis) for each axis in which the records of a workload differ.
using Varied = std::set<std::pair<std::string, std::string>>;
Varied varied_axes(const std::vector<const json*>& records) {
  Varied varied;
  std::map<Varied::value_type, const json*> first;
  for (const json* record : records) {
    for (const auto& [axis, value] : record->at("axes").items()) {
      const auto known = first.emplace(std::pair(record->at("workload").get<std::string>(), axis), &value).first;
      if (*known->second != value) varied.insert(known->first);
    }
  }
  return varied;
}

/// The record's values of these axes: " device,4KiB".
std::string varied_values(const json& record, const Varied& varied) {
  std::string text;
  for (const auto& [axis, value] : record.at("axes").items()) {
    if (!varied.contains({record.at("workload").get<std::string>(), axis})) continue;
    text += text.empty() ? " " : ",";
    if (value.is_string())
      text += value.get<std::string>();
    else
      text += axis == "bytes" ? memory::exact_bytes(value.get<std::int64_t>()) : value.dump();
  }
  return text;
}

std::string share_of(const json& metric) {
  const auto& share = metric.at("share");
  return share.is_number() ? fmt::format("{:.0f}%", 100 * share.get<double>()) : "";
}

/// Cases that measure in a way of their own: one row per metric, with its share of the limit.
std::string readings_text(const std::vector<const json*>& records) {
  std::string text = fmt::format("{:<28} {:<6} {:<19} {:>10} {:>5}\n", "workload", "size", "metric", "median", "share");
  const auto varied = varied_axes(records);
  for (const json* record : records) {
    const auto values = varied_values(*record, varied);
    const std::size_t room = values.size() < 28 ? 28 - values.size() : 0;
    const auto name = short_name(record->at("workload").get<std::string>(), room);
    const std::string head =
        fmt::format("{:<28} {:<6}", cut_to(name + values, 28), cut_to(text_of(record->at("size")), 6));
    if (record->at("metrics").empty())
      text += fmt::format("{} {:<19} {:>10} {:>5} {}\n", head, "-", "-", "", outcome_of(*record));
    for (const auto& metric : record->at("metrics"))
      text += fmt::format("{} {:<19} {:>10} {:>5} {}\n", head, cut_to(metric.at("name").get<std::string>(), 19),
                          median_of(&metric), share_of(metric), outcome_of(*record));
  }
  return text;
}

}  // namespace

std::string table(const std::vector<json>& records) {
  std::vector<const json*> with_phases, others;
  bool emulated = false;
  for (const auto& record : records) {
    emulated |= record.at("emulated").get<bool>();
    (record.at("placement").is_null() ? others : with_phases).push_back(&record);
  }
  std::vector<std::string> parts;
  if (!with_phases.empty()) parts.push_back(phases_text(with_phases));
  if (!others.empty()) parts.push_back(readings_text(others));
  auto text = join(parts, "\n");
  if (emulated) text += "Device times are emulated: they say nothing about any hardware.\n";
  return text;
}

}  // namespace isthmus::harness
