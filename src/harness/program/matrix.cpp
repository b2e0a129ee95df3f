#include "harness/program/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "harness/measure/statistics.hpp"
#include "harness/plan/names.hpp"
#include "harness/program/table.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 80;
constexpr std::string_view kDuplex = "-duplex";
/// What a cell may show; the first that a record has.
constexpr std::string_view kShown[] = {"rate", "latency"};

/// Characters, where no character is wider than one column.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Words in lines of at most 80 columns after `head`, which the later lines are indented by.
std::string wrapped(const std::string& head, const std::string& text) {
  const std::size_t indent = width_of(head);
  std::string lines = head;
  std::size_t column = indent;
  for (const auto& word : split(text, ' ')) {
    const auto width = width_of(word);
    if (column > indent && column + 1 + width > kColumns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += " ";
      ++column;
    }
    lines += word;
    column += width;
  }
  return lines + "\n";
}

/// gpu2 before gpu10; `all` stands for several and comes last.
struct PlaceOrder {
  bool operator()(const std::string& a, const std::string& b) const { return key(a) < key(b); }
  static std::tuple<bool, std::string, int> key(const std::string& place) {
    const auto last = place.find_last_not_of("0123456789");
    const std::size_t digits = last == std::string::npos ? 0 : last + 1;
    const bool numbered = digits < place.size() && place.size() - digits <= 9;
    return {place == "all", place.substr(0, digits), numbered ? std::stoi(place.substr(digits)) : -1};
  }
};

/// One route at one size; several values where several processes measured it.
struct Reading {
  std::vector<double> values, shares;
  std::string outcome;  ///< why there is no value; empty where there is one
};

/// One matrix: what one initiator did, at one point of all axes but the size.
struct Matrix {
  std::string title;    ///< "transfer/ce", "transfer/ce streams=2"
  std::string variant;  ///< " streams=2", or empty
  bool duplex = false;
  std::string metric, unit;
  using Routes = std::map<std::pair<std::string, std::string>, Reading>;
  std::map<std::optional<std::int64_t>, Routes> sizes;
};

std::optional<std::int64_t> bytes_of(const json& record) {
  const auto& axes = record.at("axes");
  const auto bytes = axes.find("bytes");
  if (bytes == axes.end() || !bytes->is_number_integer()) return std::nullopt;
  return bytes->get<std::int64_t>();
}

std::string initiator_of(const Route& route) {
  return route.initiator + (route.duplex ? std::string(kDuplex) : "");
}

void note(Matrix& matrix, Reading& reading, const json& record) {
  reading.outcome = status_of(record) == "ok" ? "" : outcome_of(record);
  if (!reading.outcome.empty()) return;
  for (const auto name : kShown) {
    for (const auto& metric : record.at("metrics")) {
      if (metric.at("name") != name || !metric.at("median").is_number()) continue;
      matrix.metric = name;
      matrix.unit = metric.at("unit");
      reading.values.push_back(metric.at("median"));
      if (metric.at("share").is_number()) reading.shares.push_back(metric.at("share"));
      return;
    }
  }
}

/// The matrices in the order of their records.
std::vector<Matrix> gather(const std::vector<const json*>& records) {
  // Axes besides the size tell matrices apart where they take several values.
  std::map<std::string, std::map<std::string, std::set<std::string>>> seen;
  const auto group_of = [](const Route& route) { return route.family + "/" + initiator_of(route); };
  for (const auto* record : records) {
    const auto route = *route_of(record->at("workload").get<std::string>());
    for (const auto& [axis, value] : record->at("axes").items())
      if (axis != "bytes") seen[group_of(route)][axis].insert(value.dump());
  }
  std::vector<Matrix> matrices;
  for (const auto* record : records) {
    const auto route = *route_of(record->at("workload").get<std::string>());
    std::string variant;
    for (const auto& [axis, value] : record->at("axes").items()) {
      const auto& values = seen[group_of(route)][axis];
      if (values.size() > 1)
        variant += fmt::format(" {}={}", axis, value.is_string() ? value.get<std::string>() : value.dump());
    }
    const auto title = group_of(route) + variant;
    auto found = std::find_if(matrices.begin(), matrices.end(), [&](const auto& m) { return m.title == title; });
    if (found == matrices.end()) {
      matrices.push_back({title, variant, route.duplex, {}, {}, {}});
      found = matrices.end() - 1;
    }
    note(*found, found->sizes[bytes_of(*record)][{route.from, route.to}], *record);
  }
  return matrices;
}

/// The middle one of all values, which decides in what multiple of the unit they are shown: one figure that is far
/// from the others must not take the digits of all.
template <class Readings>
double typical_value(const Readings& readings) {
  std::vector<double> values;
  for (const Reading* reading : readings) {
    for (const double value : reading->values) values.push_back(std::abs(value));
  }
  return values.empty() ? 0 : median(values);
}

std::string number_text(double value) {
  const double size = std::abs(value);
  if (size != 0 && size < 0.01) return fmt::format("{:.1e}", value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

std::string cell_text(const Reading* reading, double factor, bool with_share) {
  if (reading == nullptr) return "-";
  if (!reading->outcome.empty()) return reading->outcome;
  if (reading->values.empty()) return "invalid";
  auto text = number_text(median(reading->values) / factor);
  if (with_share && !reading->shares.empty()) text += fmt::format(" ({:.0f}%)", 100 * median(reading->shares));
  return text;
}

/// Rows and columns with their names; as many columns side by side as 80 columns of text hold.
std::string grid(const std::string& corner, const std::vector<std::string>& rows,
                 const std::vector<std::string>& columns,
                 const std::function<std::string(std::size_t, std::size_t)>& cell) {
  std::size_t label = width_of(corner);
  for (const auto& row : rows) label = std::max(label, width_of(row));
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns.size(); ++column) {
    std::size_t width = width_of(columns[column]);
    for (std::size_t row = 0; row < rows.size(); ++row) width = std::max(width, width_of(cell(row, column)));
    widths.push_back(width + 2);
  }
  std::string text;
  for (std::size_t first = 0, last = 0; first < columns.size(); first = last) {
    for (std::size_t used = label; last < columns.size() && (last == first || used + widths[last] <= kColumns); ++last)
      used += widths[last];
    if (first > 0) text += "\n";
    text += corner + std::string(label - width_of(corner), ' ');
    for (std::size_t column = first; column < last; ++column)
      text += fmt::format("{:>{}}", columns[column], widths[column]);
    text += "\n";
    for (std::size_t row = 0; row < rows.size(); ++row) {
      text += rows[row] + std::string(label - width_of(rows[row]), ' ');
      for (std::size_t column = first; column < last; ++column)
        text += fmt::format("{:>{}}", cell(row, column), widths[column]);
      text += "\n";
    }
  }
  return text;
}

/// The largest size that yielded anything, else the largest.
std::optional<std::int64_t> shown_size(const Matrix& matrix) {
  for (auto size = matrix.sizes.rbegin(); size != matrix.sizes.rend(); ++size) {
    for (const auto& [route, reading] : size->second)
      if (!reading.values.empty()) return size->first;
  }
  return matrix.sizes.rbegin()->first;
}

std::string matrix_text(const Matrix& matrix) {
  const auto size = shown_size(matrix);
  const auto& routes = matrix.sizes.at(size);
  std::set<std::string, PlaceOrder> from, to;
  std::vector<const Reading*> readings;
  bool shares = false;
  for (const auto& [route, reading] : routes) {
    from.insert(route.first);
    to.insert(route.second);
    readings.push_back(&reading);
    shares |= !reading.shares.empty();
  }
  const auto prefix = prefix_for(typical_value(readings), matrix.unit);
  std::string heading = matrix.title;
  if (size) heading += " at " + memory::exact_bytes(*size);
  if (!matrix.metric.empty())
    heading += fmt::format(": {}{} in {}{}{}", matrix.metric, matrix.duplex ? " of both directions" : "", prefix.name,
                           matrix.unit, shares ? " (share of its limit)" : "");
  const std::vector<std::string> rows(from.begin(), from.end()), columns(to.begin(), to.end());
  return wrapped("", heading) + grid("from \\ to", rows, columns, [&](std::size_t row, std::size_t column) {
           const auto found = routes.find({rows[row], columns[column]});
           return cell_text(found == routes.end() ? nullptr : &found->second, prefix.factor, true);
         });
}

/// Every route that yielded a figure, at every size, for the matrices that show `metric`.
std::string sizes_text(const std::vector<Matrix>& matrices, std::string_view metric) {
  std::set<std::int64_t> sizes;
  std::vector<const Reading*> readings;
  std::string unit;
  struct Row {
    const Matrix* matrix;
    std::pair<std::string, std::string> route;
  };
  std::vector<Row> rows;
  for (const auto& matrix : matrices) {
    if (matrix.metric != metric) continue;
    unit = matrix.unit;
    std::set<std::pair<std::string, std::string>> known;
    for (const auto& [size, routes] : matrix.sizes) {
      if (!size) continue;
      sizes.insert(*size);
      for (const auto& [route, reading] : routes) {
        readings.push_back(&reading);
        if (!reading.values.empty() && known.insert(route).second) rows.push_back({&matrix, route});
      }
    }
  }
  if (sizes.size() < 2) return "";
  const auto place = [](const Row& row) {
    return std::tuple(PlaceOrder::key(row.route.first), PlaceOrder::key(row.route.second));
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return place(a) < place(b); });
  std::vector<std::string> labels, columns;
  for (const auto& row : rows) {
    const auto& title = row.matrix->title;
    labels.push_back(fmt::format("{}→{}{}", row.route.first, row.route.second, title.substr(title.find('/'))));
  }
  for (const auto size : sizes) columns.push_back(memory::exact_bytes(size));
  const std::vector<std::int64_t> ordered(sizes.begin(), sizes.end());
  const auto prefix = prefix_for(typical_value(readings), unit);
  return fmt::format("{} in {}{} by size\n", metric, prefix.name, unit) +
         grid("", labels, columns, [&](std::size_t row, std::size_t column) {
           const auto size = rows[row].matrix->sizes.find(ordered[column]);
           if (size == rows[row].matrix->sizes.end()) return cell_text(nullptr, 1, false);
           const auto found = size->second.find(rows[row].route);
           return cell_text(found == size->second.end() ? nullptr : &found->second, prefix.factor, false);
         });
}

/// How many cases were skipped, or else failed, and each reason once.
std::string reasons_text(const std::vector<const json*>& records, std::string_view head, bool skipped) {
  std::vector<std::pair<std::string, int>> reasons;
  int count = 0;
  for (const auto* record : records) {
    const auto status = status_of(*record);
    if (status == "ok" || (status == "skipped") != skipped) continue;
    ++count;
    const auto why = reason_of(*record);
    auto reason = why.is_string() ? why.get<std::string>() : std::string();
    if (status == "wrong") reason = "wrong result" + (reason.empty() ? "" : ": " + reason);
    const auto same = std::ranges::find(reasons, reason, &std::pair<std::string, int>::first);
    if (same == reasons.end()) {
      reasons.emplace_back(reason, 1);
    } else {
      ++same->second;
    }
  }
  if (count == 0) return "";
  std::string text = fmt::format("{}: {} of {} cases\n", head, count, records.size());
  for (const auto& [reason, times] : reasons) text += wrapped(fmt::format("{:>4} × ", times), reason);
  return text;
}

}  // namespace

std::optional<Route> route_of(std::string_view workload) {
  const auto parts = split(workload, '/');
  if (parts.size() != 3) return std::nullopt;
  const auto dash = parts[1].find('-');
  if (dash == std::string::npos || dash == 0 || dash + 1 == parts[1].size()) return std::nullopt;
  Route route{parts[0], parts[1].substr(0, dash), parts[1].substr(dash + 1), parts[2], parts[2].ends_with(kDuplex)};
  if (route.duplex) route.initiator.resize(route.initiator.size() - kDuplex.size());
  return route;
}

std::string matrices(const std::vector<const json*>& records) {
  const auto gathered = gather(records);
  std::vector<std::string> blocks;
  for (const auto& matrix : gathered) blocks.push_back(matrix_text(matrix));
  for (const auto metric : kShown) blocks.push_back(sizes_text(gathered, metric));
  blocks.push_back(reasons_text(records, "Skipped", true));
  blocks.push_back(reasons_text(records, "Failed", false));
  std::erase(blocks, "");
  return join(blocks, "\n");
}

}  // namespace isthmus::harness
