#include "harness/program/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/plan/names.hpp"

namespace isthmus::harness {
namespace {

using nlohmann::json;

/// A record as far as tables read it.
json record(const std::string& workload, std::int64_t bytes, const std::string& metric, const std::string& unit,
            double median, std::optional<double> limit = std::nullopt) {
  json entry = {{"name", metric}, {"unit", unit}, {"median", median}, {"limit", nullptr}, {"share", nullptr}};
  if (limit) entry.update({{"limit", {{"value", *limit}}}, {"share", median / *limit}});
  return {{"workload", workload},
          {"placement", nullptr},
          {"staging", nullptr},
          {"size", nullptr},
          {"axes", {{"bytes", bytes}}},
          {"metrics", json::array({entry})},
          {"verify", {{"status", "pass"}, {"detail", nullptr}}},
          {"emulated", false},
          {"skipped", nullptr},
          {"error", nullptr}};
}

json without_figures(json record, const std::string& field, const std::string& reason) {
  record["metrics"] = json::array();
  record[field] = reason;
  return record;
}

/// What a machine with so many GPUs would measure of a family, at three sizes.
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

TEST(Readings, AreRowsOf80ColumnsWithTheirShareOfTheLimit) {
  auto records = machine(4);
  records.front()["axes"]["streams"] = 2;
  const auto text = table(records);
  expect_narrow(text);
  EXPECT_TRUE(has_line(text, "transfer/pinned-gpu1/ce 1GiB -      rate                 55.5 GB/s   88% pass")) << text;
  EXPECT_TRUE(has_line(text, "pinned-gpu3/pointer-chase    -      latency                1.23 µs       pass")) << text;
  EXPECT_NE(text.find("gpu0-gpu1/ce 1GiB "), std::string::npos) << text;
  EXPECT_NE(text.find(" skipped"), std::string::npos);
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
  EXPECT_NE(text.find("transfer/pinned-gpu0/ce 2 "), std::string::npos) << text;
  EXPECT_EQ(text.find("MiB"), std::string::npos);
  EXPECT_EQ(text.find("same"), std::string::npos);
  EXPECT_NE(text.find("FAILED"), std::string::npos);
}

/// `isthmus` spells them alike: its tests read the same file.
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

}  // namespace
}  // namespace isthmus::harness
