#include "harness/program/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/plan/names.hpp"
#include "harness/program/matrix.hpp"

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

TEST(Routes, AreReadFromNames) {
  const auto route = route_of("transfer/pinned-gpu0/ce-duplex");
  ASSERT_TRUE(route);
  EXPECT_EQ(route->family, "transfer");
  EXPECT_EQ(route->from, "pinned");
  EXPECT_EQ(route->to, "gpu0");
  EXPECT_EQ(route->initiator, "ce");
  EXPECT_TRUE(route->duplex);
  EXPECT_EQ(route_of("transfer/gpu0-gpu1/sm-read")->initiator, "sm-read");
  for (const char* name : {"microbench/saxpy", "reference/device_copy", "a/b/c", "a/-b/c", "a/b-/c", "a/b-c/d/e"})
    EXPECT_FALSE(route_of(name)) << name;
}

TEST(Matrices, OneGpu) {
  const auto text = table(machine(1));
  expect_narrow(text);
  EXPECT_TRUE(has_line(text, "transfer/ce at 1GiB: rate in GB/s (share of its limit)")) << text;
  EXPECT_NE(text.find("55.5 (88%)"), std::string::npos);
  EXPECT_NE(text.find("transfer/ce-duplex at 1GiB: rate of both directions in GB/s"), std::string::npos);
  EXPECT_NE(text.find("transfer/pointer-chase at 1MiB: latency in µs"), std::string::npos);
  EXPECT_NE(text.find("pinned→gpu0/ce"), std::string::npos);
}

TEST(Matrices, FourGpus) {
  const auto text = table(machine(4));
  expect_narrow(text);
  EXPECT_NE(text.find("Skipped: 18 of"), std::string::npos) << text;
  EXPECT_NE(text.find("   3 × gpu0 has no peer access to gpu1"), std::string::npos) << text;
}

TEST(Matrices, ManyColumnsWrapIntoBlocks) {
  const auto text = table(machine(12));
  expect_narrow(text);
  EXPECT_LT(text.find("  gpu2"), text.find("  gpu10")) << "numbers are ordered as numbers";
}

TEST(Matrices, OtherAxesTellMatricesApartAndProcessesAreOneCell) {
  std::vector<json> records;
  for (const int streams : {1, 2}) {
    for (const double rate : {40e9, 50e9, 60e9}) {
      records.push_back(record("transfer/pinned-gpu0/ce", 1 << 20, "rate", "B/s", rate * streams));
      records.back()["axes"].update({{"streams", streams}, {"order", "same"}});
    }
  }
  records.push_back(without_figures(records.front(), "error", "the cable was pulled"));
  records.back()["axes"]["bytes"] = 2 << 20;
  const auto text = table(records);
  EXPECT_NE(text.find("transfer/ce streams=2 at 1MiB: rate in GB/s"), std::string::npos) << text;
  EXPECT_EQ(text.find("order"), std::string::npos);
  EXPECT_TRUE(has_line(text, "pinned      100")) << text;
  EXPECT_NE(text.find("50.0"), std::string::npos);
  EXPECT_NE(text.find("FAILED"), std::string::npos);
  EXPECT_NE(text.find("   1 × the cable was pulled"), std::string::npos);
}

TEST(TableFormats, SayTheSameAsRows) {
  auto records = machine(1);
  records.push_back(without_figures(records.front(), "skipped", "no \"peer\", really"));
  records.front()["axes"]["streams"] = 2;
  const auto rows = json::parse(table(records, TableFormat::json))["rows"];
  ASSERT_EQ(rows.size(), records.size());
  EXPECT_EQ(rows[0]["from"], "pinned");
  EXPECT_EQ(rows[0]["duplex"], false);
  EXPECT_EQ(rows[0]["bytes"], 4096);
  EXPECT_EQ(rows[0]["axes"], json({{"streams", 2}}));
  EXPECT_EQ(rows[0]["limit"], 63e9);
  EXPECT_EQ(rows[rows.size() - 1]["status"], "skipped");
  const auto lines = split(table(records, TableFormat::csv), '\n');
  ASSERT_EQ(lines.size(), records.size() + 2);
  EXPECT_EQ(lines[0],
            "workload,placement,staging,size,from,to,initiator,duplex,bytes,streams,metric,unit,median,limit,share,"
            "status,reason");
  EXPECT_TRUE(lines[1].starts_with("transfer/pinned-gpu0/ce,,,,pinned,gpu0,ce,false,4096,2,rate,B/s,")) << lines[1];
  EXPECT_TRUE(lines[1].ends_with(",ok,")) << lines[1];
  EXPECT_TRUE(lines[records.size()].ends_with(",,,,,skipped,\"no \"\"peer\"\", really\"")) << lines[records.size()];
}

TEST(TableFormats, WorkloadsWithoutRoutesHaveRowsToo) {
  const auto rows = json::parse(table({record("reference/copy", 4096, "rate", "B/s", 1e9)}, TableFormat::json))["rows"];
  EXPECT_TRUE(rows[0]["from"].is_null());
  EXPECT_EQ(rows[0]["metric"], "rate");
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
