#include "harness/program/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/plan/names.hpp"
#include "harness/program/matrix.hpp"

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

std::string median_of(const json* metric) {
  if (metric == nullptr) return "-";
  const auto& value = metric->at("median");
  return value.is_number() ? format_quantity(value.get<double>(), metric->at("unit").get<std::string>()) : "invalid";
}

}  // namespace

std::string status_of(const json& record) {
  if (!record.at("error").is_null()) return "failed";
  if (!record.at("skipped").is_null()) return "skipped";
  return record.at("verify").at("status") == "fail" ? "wrong" : "ok";
}

json reason_of(const json& record) {
  const auto status = status_of(record);
  if (status == "ok") return nullptr;
  return status == "wrong" ? record.at("verify").at("detail") : record.at(status == "failed" ? "error" : "skipped");
}

std::string outcome_of(const json& record) {
  const auto status = status_of(record);
  if (status == "failed") return "FAILED";
  if (status == "wrong") return "WRONG";
  return status == "ok" && record.at("verify").at("status") != "not_applicable" ? record.at("verify").at("status")
                                                                                : json(status);
}

constexpr double kRoundsUp = 0.9995;  // of a prefix: what three digits would show as the next one counts as that

UnitPrefix prefix_for(double value, const std::string& unit) {
  constexpr UnitPrefix kPrefixes[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"},  {1e6, "M"},  {1e3, "k"},
                                      {1, ""},     {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}, {1e-12, "p"}};
  if (unit == "1") return {};
  for (const auto& prefix : kPrefixes) {
    if (unit == "s" && prefix.factor > 1) continue;
    if (std::abs(value) >= prefix.factor * kRoundsUp) return prefix;
  }
  return {};
}

std::string format_quantity(double value, const std::string& unit) {
  if (unit == "1") return fmt::format("{:.3g}", value);
  const auto [factor, prefix] = prefix_for(value, unit);
  const std::string shown = unit == "1/s" ? "/s" : unit;                                    // 5.00 M/s
  if (std::abs(value) < factor * kRoundsUp) return fmt::format("{:.3g} {}", value, shown);  // below every prefix
  const double scaled = value / factor;
  const int decimals = std::abs(scaled) >= 99.95 ? 0 : std::abs(scaled) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", scaled, decimals, prefix, shown);
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
        median_of(find_metric(*record, "kernel")), median_of(find_metric(*record, "out")), outcome_of(*record));
  }
  return text;
}

/// Values of the axes in which the records of this one's workload differ: " device,4096".
std::string varied_values(const json& record, const std::vector<const json*>& records) {
  std::string text;
  for (const auto& [axis, value] : record.at("axes").items()) {
    const bool varies = std::any_of(records.begin(), records.end(), [&, &name = axis, &own = value](const json* other) {
      return other->at("workload") == record.at("workload") && other->at("axes").value(name, own) != own;
    });
    if (!varies) continue;
    text += (text.empty() ? " " : ",") + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

/// Cases that measure in a way of their own: one row per metric.
std::string readings_text(const std::vector<const json*>& records) {
  std::string text = fmt::format("{:<30} {:<6} {:<22} {:>11}\n", "workload", "size", "metric", "median");
  for (const json* record : records) {
    const auto values = varied_values(*record, records);
    const std::size_t room = values.size() < 30 ? 30 - values.size() : 0;
    const auto name = short_name(record->at("workload").get<std::string>(), room);
    const std::string head =
        fmt::format("{:<30} {:<6}", cut_to(name + values, 30), cut_to(text_of(record->at("size")), 6));
    if (record->at("metrics").empty())
      text += fmt::format("{} {:<22} {:>11} {}\n", head, "-", "-", outcome_of(*record));
    for (const auto& metric : record->at("metrics"))
      text += fmt::format("{} {:<22} {:>11} {}\n", head, cut_to(metric.at("name").get<std::string>(), 22),
                          median_of(&metric), outcome_of(*record));
  }
  return text;
}

std::string text_table(const std::vector<json>& records) {
  std::vector<const json*> with_phases, with_routes, others;
  bool emulated = false;
  for (const auto& record : records) {
    emulated |= record.at("emulated").get<bool>();
    if (!record.at("placement").is_null()) {
      with_phases.push_back(&record);
    } else if (route_of(record.at("workload").get<std::string>())) {
      with_routes.push_back(&record);
    } else {
      others.push_back(&record);
    }
  }
  std::vector<std::string> parts;
  if (!with_phases.empty()) parts.push_back(phases_text(with_phases));
  if (!others.empty()) parts.push_back(readings_text(others));
  if (!with_routes.empty()) parts.push_back(matrices(with_routes));
  auto text = join(parts, "\n");
  if (emulated) text += "Device times are emulated: they say nothing about any hardware.\n";
  return text;
}

/// One object per metric of each record, and one for a record that has none.
std::vector<json> rows_of(const std::vector<json>& records) {
  std::vector<json> rows;
  for (const auto& record : records) {
    auto axes = record.at("axes");
    json bytes = nullptr;
    if (const auto found = axes.find("bytes"); found != axes.end()) {
      bytes = *found;
      axes.erase(found);
    }
    json common = {{"workload", record.at("workload")},
                   {"placement", record.at("placement")},
                   {"staging", record.at("staging")},
                   {"size", record.at("size")},
                   {"from", nullptr},
                   {"to", nullptr},
                   {"initiator", nullptr},
                   {"duplex", nullptr},
                   {"bytes", bytes},
                   {"axes", axes},
                   {"metric", nullptr},
                   {"unit", nullptr},
                   {"median", nullptr},
                   {"limit", nullptr},
                   {"share", nullptr},
                   {"status", status_of(record)},
                   {"reason", reason_of(record)}};
    if (const auto route = route_of(record.at("workload").get<std::string>()))
      common.update(
          {{"from", route->from}, {"to", route->to}, {"initiator", route->initiator}, {"duplex", route->duplex}});
    for (const auto& metric : record.at("metrics")) {
      auto row = common;
      const auto& limit = metric.at("limit");
      row.update({{"metric", metric.at("name")},
                  {"unit", metric.at("unit")},
                  {"median", metric.at("median")},
                  {"limit", limit.is_null() ? json(nullptr) : limit.at("value")},
                  {"share", metric.at("share")}});
      rows.push_back(std::move(row));
    }
    if (record.at("metrics").empty()) rows.push_back(std::move(common));
  }
  return rows;
}

/// As RFC 4180 has it; null is empty.
std::string csv_field(const json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  auto text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_table(const std::vector<json>& records) {
  const auto rows = rows_of(records);
  std::vector<std::string> axes;
  for (const auto& row : rows) {
    for (const auto& [axis, value] : row.at("axes").items()) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
  }
  const std::vector<std::string> before = {"workload", "placement", "staging", "size", "from",
                                           "to",       "initiator", "duplex",  "bytes"},
                                 after = {"metric", "unit", "median", "limit", "share", "status", "reason"};
  auto heads = before;
  heads.insert(heads.end(), axes.begin(), axes.end());
  heads.insert(heads.end(), after.begin(), after.end());
  auto text = join(heads, ",") + "\n";
  for (const auto& row : rows) {
    std::vector<std::string> fields;
    for (const auto& name : before) fields.push_back(csv_field(row.at(name)));
    for (const auto& axis : axes) fields.push_back(csv_field(row.at("axes").value(axis, json(nullptr))));
    for (const auto& name : after) fields.push_back(csv_field(row.at(name)));
    text += join(fields, ",") + "\n";
  }
  return text;
}

}  // namespace

std::string table(const std::vector<json>& records, TableFormat format) {
  switch (format) {
    case TableFormat::text:
      return text_table(records);
    case TableFormat::json:
      return json{{"rows", rows_of(records)}}.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    case TableFormat::csv:
      return csv_table(records);
  }
  return "";
}

}  // namespace isthmus::harness
