#include "trace/uvm/driver.hpp"

#include <gtest/gtest.h>

#include <array>

namespace isthmus::trace::uvm {
namespace {

std::array<int, 3> parts(const char* text) {
  const auto version = parse_driver_version(text);
  return version ? std::array{version->branch, version->minor, version->patch} : std::array{0, 0, 0};
}

TEST(UvmDriver, VersionsAreFoundWhereDriversWriteThem) {
  EXPECT_EQ(parts("580.159.04"), (std::array{580, 159, 4}));
  EXPECT_EQ(parts("515.48"), (std::array{515, 48, 0}));
  EXPECT_EQ(
      parts("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (builder)  12.2.0"),
      (std::array{550, 54, 14}));
  for (const char* none :
       {"", "none", "12.2.0", "580", "580.", ".580", "x86_64 580.", "99999999999999999999.1", "1.580.3"})
    EXPECT_EQ(parts(none), (std::array{0, 0, 0})) << none;
}

TEST(UvmDriver, BranchesThatSomebodyLookedAt) {
  for (const int branch : {515, 520, 525, 530, 535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595})
    EXPECT_TRUE(is_known_branch(branch)) << branch;
  for (const int branch : {0, 470, 510, 514, 516, 585, 596, 600}) EXPECT_FALSE(is_known_branch(branch)) << branch;
}

}  // namespace
}  // namespace isthmus::trace::uvm
