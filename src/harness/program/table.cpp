#include "harness/program/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/measure/results/result.hpp"
#include "harness/plan/names.hpp"
#include "harness/record/doubts.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

const json* find_metric(const json& record, std::string_view name) {
  for (const auto& metric : record.at("metrics")) {
    if (metric.at("name") == name) return &metric;
  }
  return nullptr;
}

}  // namespace

std::string outcome_of(const json& record) {
  if (const auto& error = record.at("error"); !error.is_null())
    return error.get_ref<const std::string&>().starts_with(kInterruptedBefore) ? "interrupted" : "FAILED";
  if (!record.at("skipped").is_null()) return "skipped";
  const auto was_interrupted = [](const json& metric) { return metric.at("stop") == "interrupted"; };
  const auto status = record.at("verify").at("status").get<std::string>();
  if (status != "fail" && std::ranges::any_of(record.at("metrics"), was_interrupted)) return "interrupted";
  return status == "fail" ? "WRONG" : status == "not_applicable" ? "ok" : status;
}

std::string format_quantity(double value, const std::string& unit) {
  if (unit == "1") return fmt::format("{:.3g}", value);
  constexpr double kRoundsUp = 0.9995;  // values from this share of a prefix round up to it
  constexpr std::pair<double, const char*> kPrefixes[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"},  {1e6, "M"},
                                                          {1e3, "k"},  {1, ""},     {1e-3, "m"}, {1e-6, "µ"},
                                                          {1e-9, "n"}, {1e-12, "p"}};
  const auto prefix = std::ranges::find_if(kPrefixes, [&](const auto& each) {
    // Seconds have no larger prefix (12000 s, not 12 ks), and 1/s no smaller one (0.4 /s, not 400 m/s, which are metres
    // per second).
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

std::string share_of(const json& metric) {
  const auto& share = metric.at("share");
  return share.is_number() ? fmt::format("{:.0f}%", 100 * share.get<double>()) : "";
}

// --- laying out ---

constexpr std::size_t kWidth = 80;

/// Returns the columns that a text occupies on a screen: its bytes except those that continue a character.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string blanks(width - std::min(width, width_of(text)), ' ');
  return right ? blanks + text : text + blanks;
}

/// Breaks a text into lines of at most kWidth columns; lines after the first are indented by two more columns.
std::string folded(const std::string& text, std::size_t indent) {
  std::string lines, line(indent, ' ');
  bool is_empty = true;
  for (const auto& word : split(text, ' ')) {
    if (!is_empty && width_of(line) + 1 + width_of(word) > kWidth) {
      lines += line + "\n";
      line.assign(indent + 2, ' ');
      is_empty = true;
    }
    line += is_empty ? word : " " + word;
    is_empty = false;
  }
  return lines + line + "\n";
}

struct Column {
  std::string head;
  bool right = false;
};

struct Row {
  std::vector<std::string> cells;
  std::string doubts;  ///< doubts on its figures; printed after the row if there is room, else below it
};

/// Table in which the first `names` columns identify the case of a row, and the other columns show its figures.
struct Layout {
  std::vector<Column> columns;
  std::size_t names = 0;
  std::vector<Row> rows;

  std::string text() const;

 private:
  std::vector<std::size_t> widths(std::size_t first) const;
  std::string line(const std::vector<std::string>& cells, std::size_t first, const std::vector<std::size_t>& widths,
                   std::size_t indent) const;
  std::string with_headings() const;
};

std::vector<std::size_t> Layout::widths(std::size_t first) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = first; i < columns.size(); ++i) {
    widths.push_back(0);
    for (const auto& row : rows) widths.back() = std::max(widths.back(), width_of(row.cells[i]));
    if (widths.back() > 0) widths.back() = std::max(widths.back(), width_of(columns[i].head));
  }
  return widths;
}

std::string Layout::line(const std::vector<std::string>& cells, std::size_t first,
                         const std::vector<std::size_t>& widths, std::size_t indent) const {
  std::string text(indent, ' ');
  for (std::size_t i = first; i < columns.size(); ++i) {
    const auto width = widths[i - first];
    if (width > 0) text += padded(cells[i], width, columns[i].right) + " ";  // a column without values is not shown
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

/// Formats a row and the doubts on it.
std::string with_doubts(const std::string& line, const std::string& doubts, std::size_t indent) {
  if (doubts.empty()) return line + "\n";
  if (width_of(line) + 2 + width_of(doubts) <= kWidth) return line + "  " + doubts + "\n";
  return line + "\n" + folded(doubts, indent);
}

std::string Layout::text() const {
  const auto own = widths(0);
  std::size_t total = 0;
  for (const auto width : own) total += width > 0 ? width + 1 : 0;
  if (total > kWidth + 1) return with_headings();
  std::vector<std::string> heads;
  for (const auto& column : columns) heads.push_back(column.head);
  std::string text = line(heads, 0, own, 0) + "\n";
  for (const auto& row : rows) text += with_doubts(line(row.cells, 0, own, 0), row.doubts, 4);
  return text;
}

/// Formats a table that is too wide for one line per row: the names of a case, including those of its axes, are on
/// lines above its figures.
std::string Layout::with_headings() const {
  const auto own = widths(names);
  std::vector<std::string> heads;
  for (const auto& column : columns) heads.push_back(column.head);
  std::string text = line(heads, names, own, 2) + "\n", before;
  for (const auto& row : rows) {
    std::string heading = row.cells.front();
    for (std::size_t i = 1; i < names; ++i) {
      if (!row.cells[i].empty()) heading += " " + columns[i].head + "=" + row.cells[i];
    }
    if (heading != before) text += folded(heading, 0);
    before = heading;
    text += with_doubts(line(row.cells, names, own, 2), row.doubts, 6);
  }
  return text;
}

// --- cases ---

/// Axes in which the records of each workload differ, keyed by the workload's name.
using Varied = std::map<std::string, std::set<std::string>>;
Varied varied_axes(const std::vector<const json*>& records) {
  Varied varied;
  std::map<std::pair<std::string, std::string>, const json*> first;
  for (const json* record : records) {
    const auto workload = record->at("workload").get<std::string>();
    auto& axes = varied[workload];
    for (const auto& [axis, value] : record->at("axes").items()) {
      const auto known = first.emplace(std::pair(workload, axis), &value).first;
      if (*known->second != value) axes.insert(axis);
    }
  }
  return varied;
}

std::string axis_text(const json& record, const std::string& axis) {
  const auto& axes = record.at("axes");
  if (!axes.contains(axis)) return "";
  const auto& value = axes.at(axis);
  if (value.is_string()) return value.get<std::string>();
  return axis == "bytes" ? memory::exact_bytes(value.get<std::int64_t>()) : value.dump();
}

/// Returns cells for name_columns(), which distinguish a case from other cases of its workload.
std::vector<std::string> name_cells(const json& record, const std::set<std::string>& axes, bool by_mode) {
  std::vector<std::string> cells{record.at("workload").get<std::string>()};
  const auto placement = text_of(record.at("placement")), staging = text_of(record.at("staging"));
  const auto mode = by_mode && record.contains("mode") ? text_of(record.at("mode")) : "";
  cells.push_back(mode);
  cells.push_back(mode.empty() ? placement : "");
  cells.push_back(mode.empty() ? staging : "");
  cells.push_back(text_of(record.at("size")));
  for (const auto& axis : axes) cells.push_back(axis_text(record, axis));
  return cells;
}

std::vector<Column> name_columns(const std::set<std::string>& axes) {
  std::vector<Column> columns{{"workload"}, {"mode"}, {"placement"}, {"staging"}, {"size"}};
  for (const auto& axis : axes) columns.push_back({axis, true});
  return columns;
}

Layout layout(const std::set<std::string>& axes, const std::vector<Column>& figures) {
  Layout result{name_columns(axes), 0, {}};
  result.names = result.columns.size();
  result.columns.insert(result.columns.end(), figures.begin(), figures.end());
  return result;
}

/// Returns the doubts on the figures of a row; figures with the same doubt are named together.
std::string doubts_of(const json& record, const std::vector<const char*>& metrics) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  std::size_t there = 0;
  for (const char* name : metrics) {
    const auto* metric = find_metric(record, name);
    if (metric == nullptr) continue;
    ++there;
    const auto text = doubts_text(record, *metric);
    if (text.empty()) continue;
    const auto same = std::ranges::find(found, text, [](const auto& each) { return each.first; });
    if (same != found.end())
      same->second.emplace_back(name);
    else
      found.push_back({text, {name}});
  }
  if (found.size() == 1 && found.front().second.size() == there) return found.front().first;
  return join(mapped(found, [](const auto& each) { return join(each.second, ", ") + ": " + each.first; }), "; ");
}

/// Formats cases with phases: one row each.
std::string phases_text(const std::vector<const json*>& records, const std::set<std::string>& axes, bool by_mode) {
  static const std::vector<const char*> kPhases{"in", "kernel", "out"};
  auto result = layout(axes, {{"in", true}, {"kernel", true}, {"out", true}, {""}});
  for (const json* record : records) {
    Row row{name_cells(*record, axes, by_mode), doubts_of(*record, kPhases)};
    for (const char* phase : kPhases) row.cells.push_back(median_of(find_metric(*record, phase)));
    row.cells.push_back(outcome_of(*record));
    result.rows.push_back(std::move(row));
  }
  return result.text();
}

/// Formats cases without phases: one row per metric, with its share of the limit.
std::string readings_text(const std::vector<const json*>& records, const std::set<std::string>& axes, bool by_mode) {
  auto result = layout(axes, {{"metric"}, {"median", true}, {"share", true}, {""}});
  for (const json* record : records) {
    const auto names = name_cells(*record, axes, by_mode);
    const auto add = [&](std::initializer_list<std::string> cells, std::string doubts) {
      result.rows.push_back({names, std::move(doubts)});
      result.rows.back().cells.insert(result.rows.back().cells.end(), cells);
    };
    if (record->at("metrics").empty()) add({"-", "-", "", outcome_of(*record)}, "");
    for (const auto& metric : record->at("metrics"))
      add({metric.at("name").get<std::string>(), median_of(&metric), share_of(metric), outcome_of(*record)},
          doubts_text(*record, metric));
  }
  return result.text();
}

}  // namespace

std::string table(const std::vector<json>& records, bool by_mode) {
  std::vector<const json*> all;
  bool emulated = false;
  for (const auto& record : records) {
    emulated |= record.at("emulated").get<bool>();
    all.push_back(&record);
  }
  // Cases whose workloads vary in the same axes form one table, with a column for each axis.
  const auto varied = varied_axes(all);
  std::vector<std::pair<std::pair<bool, std::set<std::string>>, std::vector<const json*>>> groups;
  for (const json* record : all) {
    const std::pair key(record->at("placement").is_null(), varied.at(record->at("workload").get<std::string>()));
    auto same = std::ranges::find(groups, key, [](const auto& group) { return group.first; });
    if (same == groups.end()) same = groups.insert(groups.end(), {key, {}});
    same->second.push_back(record);
  }
  std::ranges::stable_sort(groups, {}, [](const auto& group) { return group.first.first; });
  auto text = join(mapped(groups,
                          [&](const auto& group) {
                            const auto& [of_its_own, axes] = group.first;
                            return of_its_own ? readings_text(group.second, axes, by_mode)
                                              : phases_text(group.second, axes, by_mode);
                          }),
                   "\n");
  if (emulated) text += "Device times are emulated: they say nothing about real hardware.\n";
  return text;
}

std::string doubts_sentence(const std::vector<json>& records) {
  constexpr std::size_t kSaid = 4;
  std::vector<std::pair<std::string, int>> found;
  for (const auto& each : doubts_by_case(records)) found.emplace_back(each);
  if (found.empty()) return "";
  std::ranges::stable_sort(found, std::ranges::greater{}, [](const auto& each) { return each.second; });
  std::vector<std::string> parts;
  for (const auto& [words, cases] : found) {
    if (parts.size() < kSaid) parts.push_back(fmt::format("{} in {}", words, cases));
  }
  if (found.size() > kSaid) parts.push_back(fmt::format("and {} more", found.size() - kSaid));
  return fmt::format("figures in doubt, by number of cases (of {}): {}", records.size(), join(parts, ", "));
}

}  // namespace isthmus::harness
