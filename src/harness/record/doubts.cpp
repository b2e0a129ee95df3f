#include "harness/record/doubts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "device/api/device.hpp"
#include "harness/plan/metric_ranges.hpp"
#include "harness/plan/names.hpp"

namespace isthmus::harness {

namespace {

using json = nlohmann::ordered_json;  // ordered: codes are reported in the order of the list
using Record = nlohmann::json;

const json& known() {
  static const json list = json::parse(doubt_list());
  return list;
}

const json& usual_paths() {
  static const json list = json::parse(usual_share_list()).at("paths");
  return list;
}

const json* entry_of(const std::string& code) {
  const auto found = known().at("codes").find(code);
  return found != known().at("codes").end() && found->is_object() ? &*found : nullptr;
}

std::string words_of(const std::string& code) {
  const auto* entry = entry_of(code);
  return entry != nullptr ? entry->at("words").get<std::string>() : code;
}

double number(const Record& object, const char* key, double otherwise = 0) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string word(const Record& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool has(const Record& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

std::size_t left_out(const Record& metric) {
  return has(metric, "invalid") ? metric.at("invalid").size() : 0;
}

std::size_t valid_samples(const Record& metric) {
  return metric.at("samples").size() - left_out(metric);
}

// --- codes ---

/// Returns whether a warning concerns this metric. An unknown code, from a newer program, concerns all metrics.
bool speaks_of(const Record& warning, const Record& metric) {
  const auto* entry = entry_of(warning.at("code"));
  const json of = entry != nullptr ? entry->at("of") : json("all");
  const std::string name = metric.at("name");
  if (of == "named") return split(warning.at("message").get<std::string>(), ' ').front() == name;
  if (has(warning, "samples")) return left_out(metric) > 0;
  if (of.is_array()) return std::find(of.begin(), of.end(), name) != of.end();
  return of == "all";
}

bool is_stolen(const Record& record) {
  return number(record.at("run"), "stolen_share") > known().at("most_stolen").get<double>();
}

/// Returns whether a stopping rule ended the sampling of a metric, or of the time from which a rate is derived.
bool is_sampled(const Record& record, const Record& metric) {
  const std::string stop = metric.at("stop"), name = metric.at("name");
  if (stop == "derived") return name.ends_with("_rate") && !record.at("emulated").get<bool>();
  return stop == "interval" || stop == "samples" || stop == "budget" || stop == "interrupted";
}

std::set<std::string> derived_codes(const Record& record, const Record& metric) {
  std::set<std::string> found;
  const bool emulated = record.at("emulated").get<bool>();
  const auto valid = valid_samples(metric);
  const auto& median = metric.at("median");
  if (emulated) found.insert("emulated");
  if (has(record, "profiler")) found.insert("profiled");
  if (has(record, "fallback")) found.insert("fallback");
  if (is_stolen(record) && metric.at("timer") == "clock") found.insert("stolen_time");
  if (is_sampled(record, metric) && valid > 0 && valid < known().at("fewest_samples").get<std::size_t>())
    found.insert("few_samples");
  if (median.is_number() && out_of_range(metric.at("name").get<std::string>(), median.get<double>()))
    found.insert("out_of_range");
  if (!emulated && number(metric, "share") > known().at("limit_slack").get<double>()) found.insert("above_limit");
  return found;
}

/// Returns the codes of all doubts on a figure, in the order in which they are reported.
std::vector<std::string> codes_of(const Record& record, const Record& metric) {
  auto found = derived_codes(record, metric);
  for (const auto& warning : record.at("warnings")) {
    const std::string code = warning.at("code");
    if (code == "foreign_processes" && record.contains("ranks")) continue;  // ranks see each other on the device
    if (speaks_of(warning, metric)) found.insert(code);
  }
  std::vector<std::string> ordered;
  for (const auto& [code, entry] : known().at("codes").items()) {
    if (found.erase(code) > 0) ordered.push_back(code);
  }
  ordered.insert(ordered.end(), found.begin(), found.end());
  return ordered;
}

// --- low figures ---

/// Returns the kind of a limit without the numbers of this machine: PCIe, NVLink, xGMI, peak device memory bandwidth.
std::string limit_kind(const std::string& source) {
  const auto digits = source.find_first_not_of("0123456789");
  const auto rest =
      digits > 0 && digits != std::string::npos && source[digits] == ' ' ? source.substr(digits + 1) : source;
  for (const char* link : {"PCIe", "NVLink", "xGMI"}) {
    if (rest.starts_with(link)) return link;
  }
  return source;
}

/// Returns the generation and number of lanes from a text that contains, for example, "PCIe 5 x16".
std::optional<std::pair<int, int>> trained_link(const std::string& source) {
  const auto begin = source.find("PCIe ");
  if (begin == std::string::npos) return std::nullopt;
  std::pair<int, int> link;
  const char* const end = source.data() + source.size();
  const auto generation = std::from_chars(source.data() + begin + 5, end, link.first);
  if (generation.ec != std::errc() || end - generation.ptr < 2 || generation.ptr[0] != ' ' || generation.ptr[1] != 'x')
    return std::nullopt;
  const auto width = std::from_chars(generation.ptr + 2, end, link.second);
  return width.ec == std::errc() ? std::optional(link) : std::nullopt;
}

/// Returns the rate of the trained link as a share of the best rate that device and slot support, because a record's
/// limit is that of the trained link.
double part_of_best_link(const Record& record, const std::string& source) {
  const auto now = trained_link(source);
  if (!now) return 1;
  auto best = *now;
  for (const auto& device : record.at("devices")) {
    if (!has(device, "pcie")) continue;
    best.first = std::max(best.first, static_cast<int>(number(device.at("pcie"), "gen_max")));
    best.second = std::max(best.second, static_cast<int>(number(device.at("pcie"), "width_max")));
  }
  const auto rate = device::pcie_rate(now->first, now->second), most = device::pcie_rate(best.first, best.second);
  return rate && most ? *rate / *most : 1;
}

double moved(const Record& record, const Record& metric) {
  const double bytes = number(metric, "bytes_moved");
  return bytes > 0 ? bytes : number(record.at("axes"), "bytes");
}

/// Returns the share of the limit that stored records of this path reach.
std::optional<double> usual_share(const Record& record, const Record& metric, const std::string& limit) {
  const std::string workload = record.at("workload"), placement = word(record, "placement"), name = metric.at("name");
  for (const auto& path : usual_paths()) {
    const auto& metrics = path.at("metrics");
    const auto& placed = path.at("placement");
    if (std::find(metrics.begin(), metrics.end(), name) == metrics.end() || path.at("limit") != limit) continue;
    if ((placed.is_null() ? "" : placed.get<std::string>()) != placement) continue;
    if (moved(record, metric) < path.at("bytes_least").get<double>()) continue;
    if (glob_match(path.at("workload").get<std::string>(), workload)) return path.at("share").get<double>();
  }
  return std::nullopt;
}

/// Returns a text such as "low, 53% of the usual 87% of PCIe"; empty if the figure is not low.
std::string low_text(const Record& record, const Record& metric) {
  if (record.at("emulated").get<bool>() || !has(metric, "limit") || !has(metric, "share") || !has(metric, "median"))
    return "";
  const std::string source = metric.at("limit").at("source"), kind = limit_kind(source);
  const auto usual = usual_share(record, metric, kind);
  const double share = metric.at("share").get<double>() * part_of_best_link(record, source);
  if (!usual || share >= known().at("low").at("part").get<double>() * *usual) return "";
  return fmt::format("low, {:.0f}% of the usual {:.0f}% of {}", 100 * (share / *usual), 100 * *usual, kind);
}

/// Returns the probable cause of a low figure that no code explains.
std::string cause_of(const Record& record) {
  const auto& low = known().at("low");
  const double node = number(record.at("host"), "numa_node", -1);
  std::set<double> near;
  for (const auto& device : record.at("devices")) near.insert(number(device, "numa_node", -1));
  near.erase(-1);
  if (node >= 0 && !near.empty() && !near.contains(node)) return low.at("far_memory");
  if (is_stolen(record)) return words_of("stolen_time");
  const auto placement = word(record, "placement");
  if ((placement.empty() ? word(record, "workload") : placement).find("pageable") != std::string::npos)
    return low.at("pageable");
  return low.at("unknown");
}

}  // namespace

std::string doubts_text(const Record& record, const Record& metric) {
  auto codes = codes_of(record, metric);
  std::vector<std::string> parts;
  const auto add = [&](const std::string& part) {
    if (!contains(parts, part)) parts.push_back(part);
  };
  if (const auto low = low_text(record, metric); !low.empty()) {
    const auto& causes = known().at("low").at("causes");
    const auto explains =
        std::ranges::find_if(causes, [&](const json& code) { return contains(codes, code.get<std::string>()); });
    add(low + ": " + (explains != causes.end() ? words_of(explains->get<std::string>()) : cause_of(record)));
    if (explains != causes.end()) std::erase(codes, explains->get<std::string>());
  }
  for (const auto& code : codes)
    add(code == "few_samples" ? fmt::format("n={}", valid_samples(metric)) : words_of(code));
  if (const auto left = left_out(metric); left > 0)
    add(fmt::format("{} of {} samples left out", left, metric.at("samples").size()));
  return join(parts, ", ");
}

std::map<std::string, int> doubts_by_case(const std::vector<Record>& records) {
  std::map<std::string, int> cases;
  for (const auto& record : records) {
    std::set<std::string> found;
    for (const auto& metric : record.at("metrics")) {
      for (const auto& code : codes_of(record, metric)) found.insert(words_of(code));
      if (!low_text(record, metric).empty()) found.insert("low");
    }
    for (const auto& each : found) ++cases[each];
  }
  return cases;
}

}  // namespace isthmus::harness
