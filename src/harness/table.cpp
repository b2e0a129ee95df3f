#include "harness/table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

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

std::string outcome(const json& record) {
  if (!record.at("error").is_null()) return "FAILED";
  if (!record.at("skipped").is_null()) return "skipped";
  const auto status = record.at("verify").at("status").get<std::string>();
  return status == "fail" ? "WRONG" : status == "not_applicable" ? "ok" : status;
}

const json* find_metric(const json& record, std::string_view name) {
  for (const auto& metric : record.at("metrics")) {
    if (metric.at("name") == name) return &metric;
  }
  return nullptr;
}

std::string median_of(const json* metric) {
  if (metric == nullptr) return "-";
  const auto& value = metric->at("median");
  return value.is_number() ? format_quantity(value.get<double>(), metric->at("unit").get<std::string>()) : "invalid";
}

}  // namespace

std::string format_quantity(double value, const std::string& unit) {
  if (unit == "1") return fmt::format("{:.3g}", value);
  struct Prefix {
    double factor;
    const char* name;
  };
  constexpr Prefix kPrefixes[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"},  {1e6, "M"}, {1e3, "k"},
                                  {1, ""},     {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}};
  for (const auto& [factor, prefix] : kPrefixes) {
    if (unit == "s" && factor > 1) continue;
    if (std::abs(value) >= factor) {
      const double scaled = value / factor;
      const int decimals = std::abs(scaled) >= 100 ? 0 : std::abs(scaled) >= 10 ? 1 : 2;
      return fmt::format("{:.{}f} {}{}", scaled, decimals, prefix, unit);
    }
  }
  return fmt::format("{:.3g} {}", value, unit);
}

namespace {

/// Cases with phases: one row each.
std::string phases_text(const std::vector<const json*>& records) {
  std::string text = fmt::format("{:<19} {:<14} {:<6} {:<6} {:>7} {:>7} {:>7}\n", "workload", "placement", "stage",
                                 "size", "in", "kernel", "out");
  for (const json* record : records) {
    text += fmt::format(
        "{:<19} {:<14} {:<6} {:<6} {:>7} {:>7} {:>7} {}\n", short_name(record->at("workload").get<std::string>(), 19),
        cut_to(text_of(record->at("placement")), 14), cut_to(text_of(record->at("staging")), 6),
        cut_to(text_of(record->at("size")), 6), median_of(find_metric(*record, "in")),
        median_of(find_metric(*record, "kernel")), median_of(find_metric(*record, "out")), outcome(*record));
  }
  return text;
}

/// Cases that measure in a way of their own: one row per metric.
std::string readings_text(const std::vector<const json*>& records) {
  std::string text = fmt::format("{:<30} {:<6} {:<22} {:>11}\n", "workload", "size", "metric", "median");
  for (const json* record : records) {
    const std::string head = fmt::format("{:<30} {:<6}", short_name(record->at("workload").get<std::string>(), 30),
                                         cut_to(text_of(record->at("size")), 6));
    if (record->at("metrics").empty()) text += fmt::format("{} {:<22} {:>11} {}\n", head, "-", "-", outcome(*record));
    for (const auto& metric : record->at("metrics"))
      text += fmt::format("{} {:<22} {:>11} {}\n", head, cut_to(metric.at("name").get<std::string>(), 22),
                          median_of(&metric), outcome(*record));
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
  std::string text;
  if (!with_phases.empty()) text += phases_text(with_phases);
  if (!with_phases.empty() && !others.empty()) text += "\n";
  if (!others.empty()) text += readings_text(others);
  if (emulated) text += "Device times are emulated: they say nothing about any hardware.\n";
  return text;
}

}  // namespace isthmus::harness
