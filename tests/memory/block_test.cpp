#include "memory/block.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "device/api/device.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"

namespace isthmus::memory {
namespace {

constexpr std::size_t bytes = std::size_t{4} << 20;

class Blocks : public testing::TestWithParam<Kind> {};

TEST_P(Blocks, AreWhatWasAskedForAndHoldWhatIsWritten) {
  Block block(GetParam(), bytes);
  block.touch();
  EXPECT_EQ(block.size(), bytes);
  EXPECT_TRUE(block.disagreements("it").empty());
  std::memset(block.data(), 0x5a, bytes);
  EXPECT_EQ(std::to_integer<int>(block.data()[bytes - 1]), 0x5a);
  block.free();
  EXPECT_EQ(block.data(), nullptr);
  block.free();  // does nothing the second time
}

TEST_P(Blocks, LieOnTheNodeAskedFor) {
  const int node = highest_numa_node();
  if (node < 0) GTEST_SKIP() << "the kernel reports no NUMA nodes";
  Block block(GetParam(), bytes, {.numa_node = node});
  block.touch();
  EXPECT_TRUE(block.disagreements("it").empty());
  EXPECT_TRUE(node_disagreement("it", block.data(), bytes, node + 1).has_value());
}

INSTANTIATE_TEST_SUITE_P(All, Blocks,
                         testing::Values(Kind::pageable, Kind::pinned, Kind::registered, Kind::write_combined,
                                         Kind::mapped),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(Block, ThatIsMovedIsFreedOnce) {
  Block first(Kind::registered, bytes);
  const std::byte* data = first.data();
  Block second(std::move(first));
  EXPECT_EQ(second.data(), data);
  Block third(Kind::pinned, bytes);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
}

TEST(Block, ThatCannotBePageLockedLeavesNothingBehind) {
  device::set_injection("register_host:1:oom");
  EXPECT_THROW(Block(Kind::registered, bytes), device::Error);
  device::set_injection("");
  EXPECT_NO_THROW(Block(Kind::registered, bytes));
}

TEST(Pages, AreAbsentUntilTouched) {
  // Uses mmap because a sanitizer's malloc touches the memory that it returns.
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  madvise(mapped, bytes, MADV_NOHUGEPAGE);  // may fail without harm on a kernel without huge pages
  auto* begin = static_cast<std::byte*>(mapped);
  const auto before = present_pages(begin, bytes);
  if (!before) GTEST_SKIP() << "the kernel does not tell which pages are there";
  EXPECT_EQ(before->present, 0u);
  EXPECT_EQ(before->all, bytes / page_bytes());
  touch_pages(begin, bytes / 2);
  EXPECT_EQ(present_pages(begin, bytes)->present, bytes / 2 / page_bytes());
  EXPECT_EQ(present_pages(begin + bytes / 2, bytes / 2)->present, 0u);
  munmap(mapped, bytes);
}

TEST(Pages, AreOfTheSizeAskedFor) {
  Block block(Kind::pageable, bytes, {.pages = Pages::small});
  block.touch();
  EXPECT_TRUE(block.disagreements("it").empty());
}

TEST(Pages, KeepWhatIsInThemWhenRewritten) {
  Block block(Kind::pageable, bytes);
  std::memset(block.data(), 0x33, bytes);
  rewrite_pages(block.data(), bytes);
  for (std::size_t i = 0; i < bytes; i += page_bytes()) EXPECT_EQ(std::to_integer<int>(block.data()[i]), 0x33);
}

TEST(ScopedThreadNode, PutsTheThreadBackWhereItWas) {
  std::thread([] {
    cpu_set_t before, after;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    {
      const ScopedThreadNode on(highest_numa_node());
      EXPECT_EQ(on.bound(), numa_node_has_processors(highest_numa_node()));
    }
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
    EXPECT_FALSE(ScopedThreadNode(-1).bound());
    EXPECT_FALSE(ScopedThreadNode(999).bound());
  }).join();
}

}  // namespace
}  // namespace isthmus::memory
