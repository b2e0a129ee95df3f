// Tests of paging/*: every access, eviction policy and method, with partial pages, and with both warp sizes.

#include <algorithm>

#include "../emulated_machine.hpp"
#include "catalogue.hpp"
#include "microbench/paging/pattern.hpp"

namespace isthmus::microbench {
namespace {

class Paging : public device::OnEmulatedMachine {
 protected:
  static void expect_pass(const std::string& workload, const std::vector<std::string>& settings, std::size_t cases) {
    const auto results = run_cases(workload, {}, {}, settings);
    EXPECT_EQ(results.size(), cases);
    for (const auto& result : results) EXPECT_EQ(complaint(result), "") << result.spec.label();
  }
};

TEST_P(Paging, RandomPagesComeOnceAndGoBack) {
  expect_pass("paging/random", {"bytes=300016", "access=read,write", "eviction=all", "frames=30"}, 6);
  expect_pass("paging/random", {"bytes=1MiB", "access=write", "frames=20", "clean_ahead=8", "touched=70"}, 1);
  expect_pass("paging/random", {"bytes=100016", "page=64KiB", "frames=100"}, 1);
  expect_pass("paging/random", {"bytes=16", "frames=100"}, 1);
}

TEST_P(Paging, SeveralPassesStandBesideTheirOptimum) {
  const auto results = run_cases("paging/random", {}, {},
                                 {"bytes=300016", "frames=50", "passes=4", "eviction=all", "access=read,write"});
  ASSERT_EQ(results.size(), 6u);
  for (const auto& result : results) {
    ASSERT_EQ(complaint(result), "") << result.spec.label();
    // There are 74 pages and 37 frames.
    EXPECT_EQ(result.find("optimal_fetches")->samples.at(0), 74 + 3 * 37);
    EXPECT_LE(result.find("fetches")->samples.at(0), 4 * 74);
  }
  expect_pass("paging/random", {"bytes=300016", "frames=100", "passes=3", "access=write", "touched=60"}, 1);
}

TEST_P(Paging, PagesComeThroughEachTransportAndFromAPeer) {
  const std::vector<std::string> few = {"bytes=300016", "frames=30", "access=read,write",
                                        "queues=2",     "depth=3",   "pulls=1"};
  auto alone = few;
  alone.emplace_back("transport=relay");
  for (const auto& result : run_cases("paging/random", {}, {}, alone))
    EXPECT_NE(complaint(result).find("second GPU"), std::string::npos) << "there is one device";
  configure(std::string(GetParam()) + ",devices=2");
  auto each = few;
  each.emplace_back("transport=all");
  const auto results = run_cases("paging/random", {}, {}, each);
  ASSERT_EQ(results.size(), 8u);
  for (const auto& result : results) {
    ASSERT_EQ(complaint(result), "") << result.spec.label();
    const auto transport = result.spec.choice("transport");
    const double served = result.find("served")->samples.at(0);
    EXPECT_EQ(served == 0, transport == "pull") << result.spec.label();
    if (transport == "relay" || transport == "proxy") {
      EXPECT_EQ(served, 300016) << result.spec.label();
    }
  }
  each.back() = "backing=peer";
  expect_pass("paging/random", each, 2);
}

TEST_P(Paging, ASweepSeesEveryWordThroughEachWay) {
  expect_pass("paging/sweep", {"bytes=300016", "through=all"}, std::size(paged::kThroughNames));
}

TEST_P(Paging, APatternIsReadByEveryWay) {
  expect_pass("paging/pattern", {"bytes=300016", "passes=2"}, 5);
  expect_pass("paging/pattern",
              {"bytes=300016", "use=1000", "order=scattered", "density=30", "way=copy,mapped,managed,paged"}, 4);
  expect_pass("paging/pattern", {"bytes=600016", "page=64KiB", "passes=3", "frames=25,50", "way=streamed,mapped,paged"},
              6);
  expect_pass("paging/pattern", {"bytes=16", "density=1"}, 5);
}

TEST_P(Paging, CopiesOfThreadsBringEveryWord) {
  expect_pass("paging/copies", {"bytes=300016", "page=4KiB,64KiB", "threads=1,3,16"}, 6);
  expect_pass("paging/copies", {"bytes=16"}, 1);
}

TEST(PagingPreset, HasThePagesOfBothRivals) {
  harness::RequestTexts request;
  request.patterns = {"paging/*"};
  request.preset = "paper-gpuvm-fig8";
  const auto cases = harness::plan(harness::parse_request(request));
  ASSERT_EQ(cases.size(), 20u);  // ten page sizes, each with paging and with copies
  for (const auto& spec : cases) EXPECT_EQ(spec.integer("bytes"), std::int64_t{12} << 30) << spec.label();
}

TEST_P(Paging, APatternIsWhatWasAskedFor) {
  const auto results =
      run_cases("paging/pattern", {}, {},
                {"bytes=296KiB", "use=1KiB", "order=scattered", "density=50", "passes=3", "frames=50", "way=paged"});
  ASSERT_EQ(results.size(), 1u);
  const auto value = [&](const char* name) { return results[0].find(name)->samples.at(0); };
  EXPECT_EQ(value("pages_touched"), 37);  // half of the 74 pages
  EXPECT_EQ(value("useful"), 37 * 1024);
  EXPECT_GE(value("fetches"), 37 + 2 * 18);  // 19 frames keep at most 19 of 37 pages until the next pass
  EXPECT_LE(value("fetches"), 3 * 37);
  EXPECT_EQ(value("moved"), value("fetches") * 4096);
}

TEST_P(Paging, APatternThatAWayCannotHaveIsSkipped) {
  const auto skipped = [](std::vector<std::string> settings) {
    settings.emplace_back("bytes=300016");
    const auto results = run_cases("paging/pattern", {}, {}, std::move(settings));
    return results.size() == 1 && results[0].skipped ? *results[0].skipped : "";
  };
  EXPECT_NE(skipped({"way=streamed", "density=50"}).find("only all pages in order"), std::string::npos);
  EXPECT_NE(skipped({"way=streamed", "order=scattered"}).find("only all pages in order"), std::string::npos);
  EXPECT_NE(skipped({"way=copy", "frames=50"}).find("needs memory for the whole array"), std::string::npos);
  EXPECT_NE(skipped({"way=managed", "frames=50"}).find("needs memory for the whole array"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Machines, Paging, testing::Values("warp=32", "warp=64,order=reverse"));

TEST(Pattern, TouchesEachPageOnceInItsOrder) {
  for (const bool scattered : {false, true}) {
    paged::Pattern pattern{.pages = 1000,
                           .touched = 300,
                           .page_words = 512,
                           .used_words = 16,
                           .words = 999 * 512 + 2,
                           .scattered = scattered,
                           .order = paged::Scattered(1000)};
    std::vector<std::uint64_t> pages(300);
    for (std::uint64_t turn = 0; turn < 300; ++turn) pages[turn] = pattern.page(turn);
    EXPECT_EQ(std::ranges::is_sorted(pages), !scattered);
    std::ranges::sort(pages);
    EXPECT_EQ(std::ranges::adjacent_find(pages), pages.end());
    EXPECT_LT(pages.back(), 1000u);
    pattern.touched = 1000;
    for (std::uint64_t turn = 0; turn < 1000; ++turn)
      EXPECT_EQ(pattern.last_word(turn) - pattern.first_word(turn), pattern.page(turn) == 999 ? 2u : 16u);
  }
}

TEST(Scattered, IsAPermutationThatScatters) {
  for (const std::uint64_t count : {1ull, 2ull, 3ull, 64ull, 1000ull}) {
    const paged::Scattered order(count);
    std::vector<int> seen(count);
    for (std::uint64_t i = 0; i < count; ++i) ++seen.at(order[i]);
    EXPECT_EQ(seen, std::vector<int>(count, 1));
  }
  const paged::Scattered order(4096);
  int near = 0;
  for (std::uint64_t i = 0; i + 1 < 4096; ++i) {
    const auto a = order[i], b = order[i + 1];
    near += (a > b ? a - b : b - a) < 8 ? 1 : 0;
  }
  EXPECT_LT(near, 64) << "neighbours are to lie far apart";
}

}  // namespace
}  // namespace isthmus::microbench
