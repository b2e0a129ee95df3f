// Tests of the optimum, compared with every possible sequence of evictions.

#include "paging/optimum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace isthmus::paging {
namespace {

/// Returns the minimum number of fetches for the accesses from wanted[time] on if the pages `there` are resident. Tries
/// every eviction.
std::uint64_t tried(const std::vector<std::uint32_t>& wanted, std::size_t time, std::set<std::uint32_t> there,
                    std::size_t frames) {
  if (time == wanted.size()) return 0;
  if (there.contains(wanted[time])) return tried(wanted, time + 1, std::move(there), frames);
  if (there.size() < frames) {
    there.insert(wanted[time]);
    return 1 + tried(wanted, time + 1, std::move(there), frames);
  }
  std::uint64_t least = wanted.size();
  for (const auto goes : there) {
    auto left = there;
    left.erase(goes);
    left.insert(wanted[time]);
    least = std::min(least, 1 + tried(wanted, time + 1, std::move(left), frames));
  }
  return least;
}

TEST(Optimum, IsTheLeastOfAllWays) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 60; ++round) {
    const std::size_t frames = 1 + random() % 4;
    std::vector<std::uint32_t> wanted(1 + random() % 12);
    for (auto& page : wanted) page = random() % 6;
    ASSERT_EQ(optimal_fetches(wanted, frames), tried(wanted, 0, {}, frames)) << "round " << round;
  }
}

TEST(Optimum, OfPasses) {
  EXPECT_EQ(optimal_fetches(passes_over(64, 4), 32), 160u);
  EXPECT_EQ(optimal_fetches(passes_over(64, 2), 32), 96u) << "all once, and again what had no room";
  EXPECT_EQ(optimal_fetches(passes_over(64, 4), 64), 64u);
  EXPECT_EQ(optimal_fetches(passes_over(3, 5), 1), 15u);
  EXPECT_EQ(optimal_fetches({}, 1), 0u);
}

}  // namespace
}  // namespace isthmus::paging
