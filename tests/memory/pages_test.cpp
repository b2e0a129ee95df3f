#include "memory/pages.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "memory/block.hpp"

namespace isthmus::memory {
namespace {

constexpr const char* kSmaps =
    "1000-3000 rw-p 00000000 00:00 0\n"
    "Rss:                   8 kB\n"
    "Pss:                   6 kB\n"
    "Pss_Anon:              5 kB\n"
    "3000-5000 r--p 00000000 00:00 0\n"
    "Rss:                   4 kB\n"
    "Pss:                   1 kB\n"
    "9000-a000 rw-p 00000000 00:00 0   [heap]\n"
    "Rss:                   2 kB\n";

std::optional<std::size_t> field_of(std::uintptr_t begin, std::size_t bytes, const char* field) {
  std::istringstream smaps(kSmaps);
  return mapping_bytes(smaps, reinterpret_cast<const void*>(begin), bytes, field);
}

TEST(Mapping, IsThatOfTheRangeAndNoOther) {
  EXPECT_EQ(field_of(0x1000, 0x1000, "Rss"), 8u << 10);
  EXPECT_EQ(field_of(0x2fff, 2, "Rss"), 12u << 10);  // the range is in two adjacent mappings
  EXPECT_EQ(field_of(0x1000, 0x9000, "Rss"), 14u << 10);
  EXPECT_EQ(field_of(0x1000, 0x1000, "Pss"), 6u << 10);  // Pss_Anon is not added
  EXPECT_EQ(field_of(0x5000, 0x1000, "Rss"), 0u);        // the range is in a gap between two mappings
  EXPECT_EQ(field_of(0x9000, 0x1000, "Pss"), std::nullopt);
}

TEST(Mapping, IsNotToldWhereThereIsNoFile) {
  std::istringstream none(kSmaps);
  none.setstate(std::ios::failbit);
  EXPECT_EQ(mapping_bytes(none, nullptr, 1, "Rss"), std::nullopt);
}

TEST(Mapping, OfTouchedMemoryIsResident) {
  constexpr std::size_t bytes = std::size_t{8} << 20;
  Block block(Kind::pageable, bytes);
  EXPECT_LT(mapping_bytes(block.data(), bytes, "Rss").value(), bytes / 8);
  block.touch();
  EXPECT_GE(mapping_bytes(block.data(), bytes, "Rss").value(), bytes);
}

}  // namespace
}  // namespace isthmus::memory
