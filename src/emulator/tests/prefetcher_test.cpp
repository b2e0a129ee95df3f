// Decisions of the density prefetcher on hand-made blocks.

#include "emulator/prefetcher.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace emulator {
namespace {

PagesOfBlock pages(std::initializer_list<std::pair<std::size_t, std::size_t>> runs) {  // first page, one past the last
  PagesOfBlock all;
  for (const auto& [first, end] : runs) {
    for (std::size_t i = first; i < end; ++i) all.set(i);
  }
  return all;
}
const PagesOfBlock kWhole = PagesOfBlock().set(), kNone;

TEST(Prefetcher, AFaultBringsItsSixtyFourKibibytes) {
  EXPECT_EQ(prefetched_pages(kNone, pages({{0, 1}}), kWhole), pages({{1, 16}}));
  EXPECT_EQ(prefetched_pages(kNone, pages({{37, 38}}), kWhole), pages({{32, 37}, {38, 48}}));
  EXPECT_EQ(prefetched_pages(kNone, pages({{511, 512}}), kWhole), pages({{496, 511}}));
}

TEST(Prefetcher, NoFaultBringsNothing) {
  EXPECT_EQ(prefetched_pages(pages({{0, 500}}), kNone, kWhole), kNone);
}

// If pages are touched in order, each further fault doubles the resident pages: six faults migrate 2 MiB.
TEST(Prefetcher, SixFaultsInOrderBringABlock) {
  PagesOfBlock there;
  int faults = 0;
  for (std::size_t next = 0; next < block_pages; ++next) {
    if (there[next]) continue;
    ++faults;
    const auto fault = pages({{next, next + 1}});
    there |= fault | prefetched_pages(there, fault, kWhole);
    EXPECT_EQ(there, pages({{0, std::size_t{16} << (faults - 1)}})) << "after fault " << faults;
  }
  EXPECT_EQ(faults, 6);
}

// A region must be more than 51% resident: 261 of 512 pages are 50.98%, 262 pages are 51.2%.
TEST(Prefetcher, TheThresholdIsAbove51Percent) {
  const auto fault = pages({{256, 257}});
  // The fault's group has 16 pages; with 245 more, 261 are resident.
  EXPECT_FALSE(prefetched_pages(pages({{0, 245}}), fault, kWhole)[300]);
  EXPECT_TRUE(prefetched_pages(pages({{0, 246}}), fault, kWhole)[300]);
}

// Only half of every region above 64 KiB is resident, which is not enough at any level.
TEST(Prefetcher, AlternatingGroupsStayAlone) {
  PagesOfBlock faults;
  for (std::size_t first = 0; first < block_pages; first += 32) faults.set(first);
  const auto more = prefetched_pages(kNone, faults, kWhole);
  for (std::size_t i = 0; i < block_pages; ++i) EXPECT_EQ(more[i], i % 32 != 0 && i % 32 < 16) << i;
}

// Dense as a whole but sparse in small regions: all of the second half, and one of sixteen groups of the first half.
TEST(Prefetcher, ALargePieceMayBeDenseWhereASmallOneIsNot) {
  PagesOfBlock there = pages({{256, 512}});
  const auto fault = pages({{0, 1}});  // 256 + 16 of 512 pages: 53%; 16 of 32 pages: 50%
  EXPECT_EQ(prefetched_pages(there, fault, kWhole), pages({{1, 256}}));
}

TEST(Prefetcher, FaultsThatAreFarApartAreDenseTogether) {
  PagesOfBlock faults;
  for (std::size_t first = 0; first < block_pages; first += 16) faults.set(first);
  EXPECT_EQ(prefetched_pages(kNone, faults, kWhole), ~faults);
}

TEST(Prefetcher, WhatIsNoMemoryNeitherCountsNorComes) {
  const auto valid = pages({{0, 20}});
  EXPECT_EQ(prefetched_pages(kNone, pages({{0, 1}}), valid), pages({{1, 20}})) << "16 of 20 pages are 80%";
  EXPECT_EQ(prefetched_pages(kNone, pages({{18, 19}}), valid), pages({{16, 18}, {19, 20}})) << "4 of 20 are 20%";
}

}  // namespace
}  // namespace emulator
