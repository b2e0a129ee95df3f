// Formatting of error messages.

#include "emulator/format.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace emulator {
namespace {

TEST(FormatTest, ValuesTakeTheirPlaces) {
  EXPECT_EQ(sentence("nothing"), "nothing");
  EXPECT_EQ(sentence("{} of {}, {}", 3, std::size_t{7}, "text"), "3 of 7, text");
  EXPECT_EQ(sentence("{}{}", std::string("a"), std::string_view("b")), "ab");
  EXPECT_EQ(sentence("{} and {}", std::numeric_limits<long long>::min(), ~0ULL),
            "-9223372036854775808 and 18446744073709551615");
  EXPECT_EQ(sentence("at {:#x} ({})", std::uintptr_t{0xbeef}, -1), "at 0xbeef (-1)");
  EXPECT_EQ(sentence("{} s, {} s", 60.0, 0.02), "60 s, 0.02 s");
}

TEST(FormatTest, ValuesWithBracesAreText) {
  EXPECT_EQ(sentence("'{}' is {}", "{}", 1), "'{}' is 1");
}

}  // namespace
}  // namespace emulator
