#include "memory/crew.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace isthmus::memory {
namespace {

TEST(Crew, RunsEveryMemberEachTime) {
  Crew crew(4, -1);
  std::vector<int> turns(crew.size(), 0);
  for (int i = 0; i < 100; ++i) crew.run([&](unsigned member) { ++turns[member]; });
  EXPECT_EQ(turns, std::vector<int>(4, 100));
  EXPECT_GE(Crew(0, -1).size(), 1u);
}

TEST(Crew, PartsCoverEverythingOnce) {
  for (const std::size_t count : {0u, 1u, 7u, 64u, 1001u}) {
    for (const unsigned parts : {1u, 2u, 3u, 64u}) {
      std::size_t next = 0;
      for (unsigned i = 0; i < parts; ++i) {
        const Part part = part_of(count, parts, i);
        EXPECT_EQ(part.first, next);
        next = part.last;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace isthmus::memory
