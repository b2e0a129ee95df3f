// Tests of range groups with a driver that the test simulates: the group of each piece, and that no group remains.

#include "trace/uvm/range_groups.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "fake_driver.hpp"

namespace isthmus::trace::uvm {
namespace {

constexpr std::uint64_t kBase = 0x7f0000200000, kKi = 1024;

std::string refusal(FakeDriver& driver, bool forced = false) {
  try {
    const RangeGroups groups(driver, kBase, 64 * kKi, kPageBytes, forced);
    return "";
  } catch (const Unavailable& reason) {
    return reason.what();
  }
}

std::uint64_t group_of(const FakeDriver& driver, std::uint64_t address) {
  const auto found = driver.of_page.find(address / kPageBytes);
  return found == driver.of_page.end() ? 0 : found->second;
}

TEST(RangeGroups, NeighboursAreInTwoGroupsInTurnAndNothingStays) {
  FakeDriver driver;
  {
    const RangeGroups groups(driver, kBase, 256 * kKi, 64 * kKi);
    EXPECT_EQ(groups.pieces(), 4u);
    EXPECT_EQ(driver.groups.size(), 2u);
    for (std::uint64_t at = 0; at < 256 * kKi; at += kPageBytes) {
      EXPECT_NE(group_of(driver, kBase + at), 0u);
      const bool same = group_of(driver, kBase + at) == group_of(driver, kBase);
      EXPECT_EQ(same, at / (64 * kKi) % 2 == 0) << at;
    }
    EXPECT_EQ(group_of(driver, kBase - kPageBytes), 0u);
    EXPECT_EQ(group_of(driver, kBase + 256 * kKi), 0u);
  }
  EXPECT_TRUE(driver.groups.empty());
  for (const auto& [page, group] : driver.of_page) EXPECT_EQ(group, 0u);
}

// Pieces end at multiples of their size, like the driver's blocks, and include every page of the memory.
TEST(RangeGroups, AreCutByAddress) {
  FakeDriver driver;
  const RangeGroups groups(driver, kBase + 60 * kKi + 512, 8 * kKi, 64 * kKi);
  EXPECT_EQ(groups.pieces(), 2u);
  EXPECT_EQ(driver.of_page.size(), 3u);
  EXPECT_EQ(group_of(driver, kBase + 64 * kKi), group_of(driver, kBase + 68 * kKi));
  EXPECT_NE(group_of(driver, kBase + 60 * kKi), group_of(driver, kBase + 64 * kKi));
}

TEST(RangeGroups, TheDescriptorThatAnswersIsTaken) {
  FakeDriver driver;
  driver.memory_descriptors = {5, 7};
  EXPECT_EQ(refusal(driver), "");
  EXPECT_EQ(driver.sets, 16u);
}

TEST(RangeGroups, AreRefusedInASentence) {
  const auto expect = [](FakeDriver driver, const char* why) {
    const auto sentence = refusal(driver);
    EXPECT_NE(sentence.find(why), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("driver_prefetch=default"), std::string::npos) << "what to do: " << sentence;
    EXPECT_TRUE(driver.groups.empty());
  };
  FakeDriver nothing;
  nothing.memory_descriptors = {};
  expect(nothing, "has not opened /dev/nvidia-uvm");
  FakeDriver sandboxed;
  sandboxed.control_answer = -ENOTTY;
  expect(sandboxed, "provides no range group (Inappropriate ioctl");
  FakeDriver unwilling;
  unwilling.group_status = 0x56;
  expect(unwilling, "status 0x56");
  FakeDriver another;
  another.own_descriptor = 8;
  expect(another, "status 0x16");
  FakeDriver unknown;
  unknown.version = "600.12.03";
  expect(unknown, "driver branch 600");
  EXPECT_EQ(refusal(unknown, true), "") << "forced";
  FakeDriver silent;
  silent.version = "";
  expect(silent, "the driver's version is unknown");
}

TEST(RangeGroups, WhatWasSetBeforeAFailureIsTakenBack) {
  FakeDriver driver;
  driver.sets_before_failure = 3;
  const auto sentence = refusal(driver);
  EXPECT_NE(sentence.find("refuses a range group of 4096 bytes at 0x7f0000203000 (status 0x1f)"), std::string::npos)
      << sentence;
  EXPECT_TRUE(driver.groups.empty());
  for (const auto& [page, group] : driver.of_page) EXPECT_EQ(group, 0u);
}

}  // namespace
}  // namespace isthmus::trace::uvm
