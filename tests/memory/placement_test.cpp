#include "memory/placement.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <set>

namespace isthmus::memory {
namespace {

TEST(Placement, NamesAreUniqueAndParseBack) {
  std::set<std::string_view> names;
  for (const auto placement : all_placements()) {
    EXPECT_TRUE(names.insert(name(placement)).second) << name(placement);
    EXPECT_EQ(parse_placement(name(placement)), placement);
  }
  EXPECT_EQ(names.size(), 12u);  // includes the placement that buffer_set_test.cpp registers
  EXPECT_FALSE(parse_placement("pinnd"));
  EXPECT_FALSE(parse_placement(""));
}

TEST(Placement, DeviceWithNothingTakesOnlyTheExplicitOnes) {
  device::DeviceInfo bare;
  bare.name = "bare";
  for (const auto placement : all_placements()) {
    const bool plain = placement == parse_placement("pageable") || placement == parse_placement("pinned") ||
                       placement == parse_placement("streamed");
    EXPECT_EQ(unsupported_reason(placement, bare).has_value(), !plain) << name(placement);
  }
}

TEST(Placement, DeviceWithEverythingTakesAll) {
  device::DeviceInfo full;
  full.integrated = full.managed = full.concurrent_managed = full.pageable_access = full.memory_pools =
      full.can_map_host = true;
  for (const auto placement : all_placements()) EXPECT_FALSE(unsupported_reason(placement, full)) << name(placement);
}

TEST(Placement, ReasonNamesDeviceAndPlacement) {
  device::DeviceInfo info;
  info.name = "Some GPU";
  const auto reason = unsupported_reason(*parse_placement("system"), info);
  ASSERT_TRUE(reason);
  EXPECT_NE(reason->find("Some GPU"), std::string::npos);
  EXPECT_NE(reason->find("system"), std::string::npos);
}

TEST(ByteCount, RefusesWhatNoAddressCanCount) {
  EXPECT_EQ(byte_count(3, 4), 12u);
  EXPECT_EQ(byte_count(0, 8), 0u);
  EXPECT_THROW(byte_count(std::numeric_limits<std::size_t>::max() / 2, 4), std::length_error);
}

TEST(Cut, CoversEveryUnitOnceInOrder) {
  for (const std::size_t units : {1, 2, 7, 16, 17, 1000}) {
    for (const std::size_t chunks : {0, 1, 2, 3, 16, 1001}) {
      std::size_t next = 0;
      for (const auto& range : cut(units, chunks)) {
        EXPECT_EQ(range.first, next);
        EXPECT_GT(range.count, 0u);
        next += range.count;
      }
      EXPECT_EQ(next, units);
    }
  }
  EXPECT_TRUE(cut(0, 4).empty());
}

}  // namespace
}  // namespace isthmus::memory
