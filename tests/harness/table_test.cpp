#include "harness/program/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/plan/names.hpp"
#include "harness/program/run_cases.hpp"

namespace isthmus::harness {
namespace {

using nlohmann::json;

/// Returns a record with the fields that tables read.
json record(const std::string& workload, std::int64_t bytes, const std::string& metric, const std::string& unit,
            double median, std::optional<double> limit = std::nullopt) {
  json entry = {{"name", metric},    {"unit", unit},     {"median", median},
                {"limit", nullptr},  {"share", nullptr}, {"samples", {median, median, median}},
                {"stop", "samples"}, {"timer", "event"}};
  if (limit) entry.update({{"limit", {{"value", *limit}, {"source", "a limit"}}}, {"share", median / *limit}});
  return {{"workload", workload},
          {"placement", nullptr},
          {"staging", nullptr},
          {"size", nullptr},
          {"axes", {{"bytes", bytes}}},
          {"metrics", json::array({entry})},
          {"verify", {{"status", "pass"}, {"detail", nullptr}}},
          {"emulated", false},
          {"profiler", nullptr},
          {"fallback", nullptr},
          {"run", {{"stolen_share", nullptr}}},
          {"devices", json::array()},
          {"host", json::object()},
          {"warnings", json::array()},
          {"skipped", nullptr},
          {"error", nullptr}};
}

json without_figures(json record, const std::string& field, const std::string& reason) {
  record["metrics"] = json::array();
  record[field] = reason;
  return record;
}

/// Returns the records that a machine with `gpus` GPUs would write for the family transfer/*, at three sizes.
std::vector<json> machine(int gpus) {
  constexpr std::int64_t kSizes[] = {4 << 10, 1 << 20, 1 << 30};
  std::vector<json> records;
  const auto add = [&](const std::string& pair, const std::string& initiator, double peak, double limit) {
    for (const auto bytes : kSizes) {
      const double ramp = static_cast<double>(bytes) / (static_cast<double>(bytes) + 5e5);
      records.push_back(record("transfer/" + pair + "/" + initiator, bytes, "rate", "B/s", peak * ramp, limit));
    }
  };
  for (int a = 0; a < gpus; ++a) {
    const auto gpu = "gpu" + std::to_string(a);
    add("pinned-" + gpu, "ce", 55.5e9, 63e9);
    add(gpu + "-pinned", "ce", 54.1e9, 63e9);
    add("pinned-" + gpu, "ce-duplex", 88e9, 126e9);
    add("managed-" + gpu, "fault", 9.8e9, 63e9);
    for (int b = 0; b < gpus; ++b) {
      if (a != b) add(gpu + "-gpu" + std::to_string(b), "sm-read", 380e9, 450e9);
      for (const auto bytes : kSizes) {
        if (a < b)
          records.push_back(without_figures(
              record("transfer/" + gpu + "-gpu" + std::to_string(b) + "/ce", bytes, "rate", "B/s", 1), "skipped",
              "gpu" + std::to_string(a) + " has no peer access to gpu" + std::to_string(b) +
                  ", so the driver would copy by way of host memory: not what this name says"));
      }
    }
    records.push_back(record("transfer/pinned-" + gpu + "/pointer-chase", 1 << 20, "latency", "s", 1.2e-6 + a * 1e-8));
  }
  add("pinned-all", "ce", 201e9, 252e9);
  return records;
}

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto width = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
    EXPECT_LE(width, 80) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
  }
}

bool has_line(const std::string& text, const std::string& wanted) {
  const auto lines = split(text, '\n');
  return std::find(lines.begin(), lines.end(), wanted) != lines.end();
}

/// Returns `text` with each run of spaces replaced by one space.
std::string squeezed(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' || (!result.empty() && result.back() != ' ')) result += c;
  }
  return result;
}

/// Returns a record of a case with phases.
json phased(const std::string& placement, const std::string& mode, std::int64_t threads) {
  auto made = record("microbench/saxpy", 1 << 20, "kernel", "s", 1e-3);
  made.update({{"placement", placement},
               {"staging", "direct"},
               {"mode", mode},
               {"size", "tiny"},
               {"axes", {{"threads", threads}, {"tile", "1024"}}}});
  return made;
}

TEST(Phases, HaveAColumnForAnAxisThatVaries) {
  const auto text = squeezed(table({phased("pinned", "pm", 128), phased("pinned", "pm", 256)}));
  EXPECT_TRUE(has_line(text, "workload placement staging size threads in kernel out")) << text;
  EXPECT_TRUE(has_line(text, "microbench/saxpy pinned direct tiny 128 - 1.00 ms - pass")) << text;
  EXPECT_TRUE(has_line(text, "microbench/saxpy pinned direct tiny 256 - 1.00 ms - pass")) << text;
}

TEST(Phases, AreNamedByTheModeWhereModesWereAskedFor) {
  const auto text = squeezed(table({phased("pinned", "pm", 128)}, true));
  EXPECT_TRUE(has_line(text, "workload mode size in kernel out")) << text;
  EXPECT_TRUE(has_line(text, "microbench/saxpy pm tiny - 1.00 ms - pass")) << text;
}

TEST(Phases, WithLongNamesHaveThemAboveTheFigures) {
  auto long_one = phased("managed_demand", "", 128), other = phased("managed_demand", "", 256);
  for (auto* each : {&long_one, &other}) {
    (*each)["workload"] = "microbench/" + std::string(50, 'x');
    (*each)["mode"] = nullptr;
  }
  const auto text = table({long_one, other});
  expect_narrow(text);
  EXPECT_NE(squeezed(text).find("placement=managed_demand staging=direct size=tiny threads=256"), std::string::npos)
      << text;
}

json with_warning(json record, const std::string& code) {
  record["warnings"].push_back({{"code", code}, {"message", "a sentence"}, {"samples", nullptr}});
  return record;
}

// If a record has a warning that another process used the GPU, the table must show it below the figure.
TEST(Doubts, StandNextToTheirFigures) {
  auto slow = record("transfer/pinned-gpu0/ce", 1 << 30, "rate", "B/s", 29.1e9, 63e9);
  slow["metrics"][0]["limit"]["source"] = "PCIe 5 x16";
  const auto text = table({with_warning(slow, "foreign_processes")});
  expect_narrow(text);
  EXPECT_NE(text.find("\n    low, 53% of the usual 87% of PCIe: others on the GPU\n"), std::string::npos) << text;
  EXPECT_EQ(doubts_sentence({with_warning(slow, "foreign_processes")}),
            "figures in doubt, by number of cases (of 1): low in 1, others on the GPU in 1");
  EXPECT_EQ(doubts_sentence({phased("pinned", "pm", 128)}), "");
}

TEST(Doubts, OfOneOfSeveralPhasesNameIt) {
  auto of_one = phased("pinned", "pm", 128);
  of_one["metrics"].push_back(record("x/y", 1, "in", "s", 1e-3)["metrics"][0]);
  of_one["warnings"].push_back({{"code", "timer_coarse"}, {"message", "in is shorter than"}, {"samples", nullptr}});
  EXPECT_TRUE(has_line(table({of_one}), "    in: coarse timer")) << table({of_one});
  of_one["emulated"] = true;
  of_one["warnings"] = json::array();
  EXPECT_TRUE(
      has_line(squeezed(table({of_one})), "microbench/saxpy pinned direct tiny 1.00 ms 1.00 ms - pass emulated"))
      << table({of_one});
}

TEST(Readings, AreRowsOf80ColumnsWithTheirShareOfTheLimit) {
  auto records = machine(4);
  records.front()["axes"]["streams"] = 2;
  const auto text = table(records);
  expect_narrow(text);
  EXPECT_TRUE(has_line(squeezed(text), "transfer/pinned-gpu1/ce 1GiB rate 55.5 GB/s 88% pass")) << text;
  EXPECT_TRUE(has_line(squeezed(text), "transfer/pinned-gpu3/pointer-chase latency 1.23 µs pass")) << text;
  EXPECT_TRUE(has_line(squeezed(text), "transfer/gpu0-gpu1/ce 1GiB - - skipped")) << text;
}

TEST(Readings, NameOnlyTheAxesInWhichAWorkloadsRecordsDiffer) {
  std::vector<json> records;
  for (const int streams : {1, 2}) {
    records.push_back(record("transfer/pinned-gpu0/ce", 1 << 20, "rate", "B/s", 50e9 * streams));
    records.back()["axes"].update({{"streams", streams}, {"order", "same"}});
  }
  records.push_back(record("transfer/gpu0-pinned/ce", 2 << 20, "rate", "B/s", 50e9));
  records.push_back(without_figures(records.front(), "error", "the cable was pulled"));
  const auto text = table(records);
  EXPECT_TRUE(has_line(squeezed(text), "workload streams metric median")) << text;
  EXPECT_TRUE(has_line(squeezed(text), "transfer/pinned-gpu0/ce 2 rate 100 GB/s pass")) << text;
  EXPECT_EQ(text.find("MiB"), std::string::npos);
  EXPECT_EQ(text.find("same"), std::string::npos);
  EXPECT_NE(text.find("FAILED"), std::string::npos);
}

// The command `isthmus` must spell quantities in the same way; its tests read the same file.
TEST(Quantity, IsSpeltAsByTheOtherProgram) {
  std::ifstream file(ISTHMUS_QUANTITIES);
  std::string line;
  ASSERT_TRUE(std::getline(file, line)) << ISTHMUS_QUANTITIES;
  int cases = 0;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string value, unit, text;
    std::getline(std::getline(std::getline(fields, value, ','), unit, ','), text);
    EXPECT_EQ(format_quantity(std::stod(value), unit), text) << line;
    ++cases;
  }
  EXPECT_GT(cases, 15);
}

TEST(Outcomes, AnInterruptedCaseHasNotFailed) {
  Tally tally;
  for (const auto* error : {"interrupted before the first sample", "out of memory"})
    tally.count(outcome_of(without_figures(record("transfer/a/ce", 1, "rate", "B/s", 1), "error", error)));
  EXPECT_EQ(tally.text(), "0 passed, 0 skipped, 1 failed, 1 interrupted");
}

}  // namespace
}  // namespace isthmus::harness
