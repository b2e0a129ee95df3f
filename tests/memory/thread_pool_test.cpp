#include "memory/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <vector>

#include "memory/parallel.hpp"
#include "memory/processors.hpp"

namespace isthmus::memory {
namespace {

TEST(ThreadPool, RunsEveryMemberEachTime) {
  ThreadPool pool(4, -1);
  std::vector<int> turns(pool.size(), 0);
  for (int i = 0; i < 100; ++i) pool.run([&](unsigned member) { ++turns[member]; });
  EXPECT_EQ(turns, std::vector<int>(4, 100));
  EXPECT_GE(ThreadPool(0, -1).size(), 1u);
}

TEST(ThreadPool, PartsCoverEverythingOnce) {
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

TEST(ThreadPool, StaysWhereItIsPut) {
  const auto wanted = places(processors().cores, 0, Binding::close);
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  ThreadPool pool(wanted);
  ASSERT_EQ(pool.size(), wanted.size());
  std::vector<int> found(pool.size(), -1);
  for (int i = 0; i < 3; ++i) pool.run([&](unsigned member) { found[member] = sched_getcpu(); });
  EXPECT_EQ(found, wanted);
  EXPECT_TRUE(pool.kept_places());
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "the caller may go where it might before";
}

TEST(ThreadPool, SaysWhereItCouldNotGo) {
  ThreadPool pool(std::vector<int>{CPU_SETSIZE - 1});
  pool.run([](unsigned) {});
  EXPECT_FALSE(pool.kept_places());
}

TEST(ThreadPool, MeetsEachTimeBeforeAnyGoesOn) {
  constexpr unsigned kMembers = 3;
  ThreadPool pool(kMembers, -1);
  std::atomic<unsigned> arrived = 0;
  std::atomic<bool> early = false;
  pool.run([&](unsigned) {
    for (unsigned meeting = 1; meeting <= 50; ++meeting) {
      ++arrived;
      pool.meet();
      if (arrived < meeting * kMembers) early = true;
      pool.meet();
    }
  });
  EXPECT_FALSE(early);
  EXPECT_EQ(arrived, 50 * kMembers);
}

}  // namespace
}  // namespace isthmus::memory
