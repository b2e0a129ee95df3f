#include "harness/record/doubts.hpp"
#include "harness/plan/metric_ranges.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace isthmus::harness {
namespace {

using nlohmann::json;

/// Returns the test cases. The tests of the command `isthmus` read the same file, so that both use the same words.
std::vector<json> cases() {
  std::ifstream file(ISTHMUS_DOUBT_WORDS);
  std::vector<json> list;
  for (std::string line; std::getline(file, line);) list.push_back(json::parse(line));
  return list;
}

TEST(Doubts, AreThoseOfTheOtherProgram) {
  const auto all = cases();
  ASSERT_GT(all.size(), 30U);
  for (const auto& each : all) {
    const auto& record = each.at("record");
    EXPECT_EQ(doubts_text(record, record.at("metrics").at(0)), each.at("words")) << record.dump();
  }
}

TEST(Doubts, AreCountedByCase) {
  std::vector<json> records;
  for (const auto& each : cases()) records.push_back(each.at("record"));
  const auto found = doubts_by_case(records);
  EXPECT_EQ(found.at("others on the GPU"), 4);
  EXPECT_GT(found.at("low"), 5);
  EXPECT_EQ(found.at("emulated"), 2);
  EXPECT_FALSE(found.contains("latch_exempt"));
}

TEST(Doubts, KnowMetricsOfAKnownRange) {
  EXPECT_TRUE(out_of_range("mapping_rss_touched", 2.125));
  EXPECT_TRUE(out_of_range("huge_page_share", -0.5));
  EXPECT_FALSE(out_of_range("mapping_rss_touched", 1.0001));
  EXPECT_FALSE(out_of_range("rate", 5e9));
  EXPECT_FALSE(out_of_range("slack", 5e9));
}

}  // namespace
}  // namespace isthmus::harness
