#include "harness/plan/old_names.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/record/record.hpp"

namespace isthmus::harness {
namespace {

using nlohmann::json;

TEST(OldNames, AreConvertedAsTheExamplesSay) {
  std::ifstream file(ISTHMUS_OLD_NAMES);
  const auto examples = json::parse(file);
  ASSERT_GT(examples.size(), 10u);
  for (const auto& example : examples) {
    const auto record_of = [&](const char* when, const char* schema) {
      const json& names = example.at(when);
      return json{
          {"schema", schema}, {"workload", names.at("workload")}, {"axes", names.value("parameters", json::object())}};
    };
    const auto old = record_of("old", "isthmus.record/2"), current = record_of("new", "isthmus.record/3");
    EXPECT_EQ(upgraded(old), current) << example;
    EXPECT_EQ(upgraded(current), current) << "names of this version stay";
    auto older = old;
    older["schema"] = "isthmus.record/1";
    EXPECT_EQ(upgraded(older)["workload"], current["workload"]) << example;
    EXPECT_EQ(upgraded(older)["axes"], current["axes"]) << example;
  }
}

TEST(OldNames, OfLatencyAndAccountingNameKindsToo) {
  EXPECT_EQ(current_workload("latency/malloc-cpu/chase"), "latency/pageable-cpu/chase");
  EXPECT_EQ(current_workload("latency/wc-gpu0/chase"), "latency/write_combined-gpu0/chase");
  EXPECT_EQ(current_workload("accounting/malloc/gpu1"), "accounting/pageable/gpu1");
  EXPECT_EQ(current_workload("accounting/wc/gpu0"), "accounting/write_combined/gpu0");
}

TEST(OldNames, OfPatternsAreThoseOfTheirWords) {
  EXPECT_EQ(current_workload("alloc/malloc-*"), "alloc/pageable-*");
  EXPECT_EQ(current_workload("transfer/*-wc/ce*"), "transfer/*-write_combined/ce*");
  for (const char* same : {"alloc", "*", "", "alloc/*", "microbench/wc", "driver/malloc", "alloc/wcx"})
    EXPECT_EQ(current_workload(same), same);
}

TEST(OldNames, RecordsThatAreNoneAreLeftAsTheyAre) {
  for (const char* line : {R"({"schema": "isthmus.record/2"})", R"({"schema": "isthmus.record/2", "workload": 7})",
                           R"({"schema": "isthmus.record/2", "workload": "alloc/node", "axes": 7})",
                           R"({"schema": "isthmus.record/2", "workload": "alloc/node", "axes": {"memory": 7}})"}) {
    auto expected = json::parse(line);
    expected["schema"] = "isthmus.record/3";
    EXPECT_EQ(upgraded(json::parse(line)), expected);
  }
}

}  // namespace
}  // namespace isthmus::harness
