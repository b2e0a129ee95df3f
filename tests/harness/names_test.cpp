#include "harness/plan/names.hpp"

#include <gtest/gtest.h>

#include "memory/host_memory.hpp"

namespace isthmus::harness {
namespace {

TEST(Glob, MatchesAsAShellDoes) {
  EXPECT_TRUE(glob_match("*", "microbench/saxpy"));
  EXPECT_TRUE(glob_match("microbench/*", "microbench/saxpy"));
  EXPECT_TRUE(glob_match("*/saxpy", "microbench/saxpy"));
  EXPECT_TRUE(glob_match("micro*/s?xpy", "microbench/saxpy"));
  EXPECT_TRUE(glob_match("m*b*s*y", "microbench/saxpy"));
  EXPECT_FALSE(glob_match("saxpy", "microbench/saxpy"));
  EXPECT_FALSE(glob_match("microbench/", "microbench/saxpy"));
  EXPECT_FALSE(glob_match("microbench/saxpy?", "microbench/saxpy"));
  EXPECT_FALSE(glob_match("", "x"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_TRUE(glob_match("**", ""));
}

TEST(Names, PrintableTextIsOneLine) {
  EXPECT_EQ(printable("a\nb\tc\x7f"), "a\\nb\\x09c\\x7f");
  EXPECT_EQ(printable("µs, 1…5"), "µs, 1…5");
}

TEST(Names, NearestByEditDistance) {
  const std::vector<std::string> names{"pageable", "pinned", "pool", "mapped"};
  EXPECT_EQ(nearest("pinnd", names), "pinned");
  EXPECT_EQ(nearest("maped", names), "mapped");
  EXPECT_EQ(nearest("--form", std::vector<std::string>{"--format", "--from"}), "--from") << "two letters exchanged";
  EXPECT_FALSE(nearest("x", {}));
  EXPECT_NE(suggestion("pinnd", names).find("did you mean 'pinned'?"), std::string::npos);
  EXPECT_NE(suggestion("something else", names).find("choose one of pageable, pinned"), std::string::npos);
}

TEST(Names, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,b", ','), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Bytes, ParseAndFormat) {
  EXPECT_EQ(memory::parse_bytes("1048576"), std::size_t{1} << 20);
  EXPECT_EQ(memory::parse_bytes("1MiB"), std::size_t{1} << 20);
  EXPECT_EQ(memory::parse_bytes("1.5GiB"), std::size_t{3} << 29);
  EXPECT_EQ(memory::parse_bytes("2 KiB"), 2048u);
  for (const char* bad : {"", "GiB", "1GB", "-1", "nan", "inf", "1e99", "12x"})
    EXPECT_FALSE(memory::parse_bytes(bad)) << bad;
  EXPECT_EQ(memory::format_bytes(512), "512 B");
  EXPECT_EQ(memory::format_bytes(1.5 * (1 << 30)), "1.5 GiB");
  for (const std::int64_t bytes : {0, 1, 1000, 1024, 1536 << 10, 1 << 30})
    EXPECT_EQ(memory::parse_bytes(memory::exact_bytes(bytes)), static_cast<std::size_t>(bytes));
  EXPECT_EQ(memory::exact_bytes(1536 << 10), "1536KiB");
}

}  // namespace
}  // namespace isthmus::harness
