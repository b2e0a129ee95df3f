#include "harness/measure/inputs/verifier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "harness/measure/inputs/inputs.hpp"

namespace isthmus::harness {
namespace {

TEST(RelativeToBound, LargerBoundHolds) {
  EXPECT_DOUBLE_EQ(relative_to_bound(1.0, 1.0, {}), 0);
  EXPECT_DOUBLE_EQ(relative_to_bound(1.5, 1.0, {.absolute = 1}), 0.5);
  EXPECT_DOUBLE_EQ(relative_to_bound(110, 100, {.absolute = 1, .relative = 0.1}), 1);
  EXPECT_TRUE(std::isinf(relative_to_bound(1.0, 2.0, {})));
}

TEST(RelativeToBound, NoNumberNeverPasses) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tolerance wide{.absolute = 1e300, .relative = 1e300};
  EXPECT_GT(relative_to_bound(nan, 1, wide), 1);
  EXPECT_GT(relative_to_bound(1, nan, wide), 1);
  EXPECT_GT(relative_to_bound(nan, nan, wide), 1);
  EXPECT_GT(relative_to_bound(inf, 1, wide), 1);
}

TEST(ElementsToCheck, AllWhenFewElseFromEveryStratumWithEdges) {
  EXPECT_EQ(elements_to_check(5, 5, 10), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  const std::size_t elements = 1 << 20, limit = 1024;
  const auto chosen = elements_to_check(elements, 1000, limit);
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
  EXPECT_EQ(std::adjacent_find(chosen.begin(), chosen.end()), chosen.end());
  EXPECT_EQ(chosen.front(), 0u);
  EXPECT_EQ(chosen.back(), elements - 1);
  for (std::size_t stratum = 0; stratum < limit; ++stratum) {
    const auto found = std::lower_bound(chosen.begin(), chosen.end(), stratum * (elements / limit));
    ASSERT_NE(found, chosen.end());
    EXPECT_LT(*found, (stratum + 1) * (elements / limit));
  }
  // The chosen elements include ends of rows.
  EXPECT_TRUE(std::any_of(chosen.begin(), chosen.end(), [](auto i) { return i % 1000 == 999; }));
  EXPECT_EQ(chosen, elements_to_check(elements, 1000, limit));
}

/// Buffer in host memory in which each element's value is its index.
class Buffer {
 public:
  explicit Buffer(std::size_t rows, std::size_t columns, std::size_t pitch)
      : set_(*memory::parse_placement("pageable"), {{"b", memory::Role::output, rows * pitch * sizeof(float)}}, {}) {
    set_.allocate_host();
    check_ = {.buffer_name = "b",
              .element_bytes = sizeof(float),
              .floating = true,
              .columns = columns,
              .pitch = pitch,
              .elements = rows * columns,
              .compare =
                  [](std::size_t i, const std::byte* element) {
                    float actual;
                    std::memcpy(&actual, element, sizeof actual);
                    return std::pair<double, double>{actual, static_cast<double>(i)};
                  },
              .tolerance = {.relative = 1e-6},
              .method = "index"};
    std::memset(set_.host(0), 0xff, rows * pitch * sizeof(float));  // poison, which the padding keeps
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column)
        at(row * pitch + column) = static_cast<float>(row * columns + column);
    }
  }
  float& at(std::size_t i) { return reinterpret_cast<float*>(set_.host(0))[i]; }
  Verification verdict() {
    Verifier verifier;
    verifier.add(check_);
    verifier.check_sample(set_);
    verifier.check_fully(set_);
    return verifier.outcome();
  }

 private:
  memory::BufferSet set_;
  ElementCheck check_;
};

TEST(Verifier, PassesWhatIsRight) {
  const auto verdict = Buffer(30, 100, 128).verdict();
  EXPECT_EQ(verdict.verdict, Verdict::pass);
  EXPECT_EQ(verdict.checked, 3000u);
  EXPECT_EQ(verdict.error, 0.0);
  EXPECT_EQ(verdict.method, "index");
}

TEST(Verifier, NamesTheFirstWrongElement) {
  Buffer buffer(30, 30, 32);
  buffer.at(7 * 32 + 3) = 5;
  buffer.at(9 * 32) = 5;
  const auto verdict = buffer.verdict();
  EXPECT_EQ(verdict.verdict, Verdict::fail);
  EXPECT_NE(verdict.detail.find("b[7][3] is 5, expected 213"), std::string::npos) << verdict.detail;
}

TEST(Verifier, FindsOneUnwrittenElementAmongMillions) {
  Buffer buffer(1, 1 << 22, 1 << 22);
  for (std::size_t i = 0; i < (1 << 22); ++i) buffer.at(i) = static_cast<float>(i);
  buffer.at(3333333) = std::nanf("");
  std::memset(&buffer.at(3333333), 0xff, sizeof(float));
  const auto verdict = buffer.verdict();
  EXPECT_EQ(verdict.verdict, Verdict::fail);
  EXPECT_EQ(verdict.detail, "b[3333333] was never written");
  EXPECT_FALSE(verdict.error);
}

TEST(Verifier, AFailureIsNotForgiven) {
  Verifier verifier;
  verifier.check_own({"first", [] { return 2.0; }, 1});
  verifier.check_own({"second", [] { return 0.0; }, 1});
  EXPECT_TRUE(verifier.failed());
  EXPECT_NE(verifier.outcome().detail.find("first"), std::string::npos);
}

TEST(Verifier, OwnErrorThatIsNoNumberFails) {
  Verifier verifier;
  verifier.check_own({"own", [] { return std::nan(""); }, 1e9});
  EXPECT_TRUE(verifier.failed());
  EXPECT_FALSE(verifier.outcome().error);
}

// The buffer has far more elements than are compared, so that only the scan for poison reads every element.
TEST(Verifier, AnIntegerThatNobodyWroteIsFoundWhereverItLies) {
  constexpr std::size_t elements = std::size_t{5} << 20, unwritten = 3'333'333;
  memory::BufferSet set(*memory::parse_placement("pageable"), {{"b", memory::Role::output, elements * sizeof(int)}},
                        {});
  set.allocate_host();
  int* values = reinterpret_cast<int*>(set.host(0));
  const auto verdict = [&](int expected_there) {
    for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<int>(i);
    values[unwritten] = -1;  // all bytes are 0xff, as in poisoned memory
    Verifier verifier;
    verifier.add(ElementCheck{.buffer_name = "b",
                              .element_bytes = sizeof(int),
                              .columns = elements,
                              .pitch = elements,
                              .elements = elements,
                              .compare =
                                  [=](std::size_t i, const std::byte* element) {
                                    int actual;
                                    std::memcpy(&actual, element, sizeof actual);
                                    return std::pair<double, double>(
                                        actual, i == unwritten ? expected_there : static_cast<int>(i));
                                  },
                              .tolerance = {},
                              .method = "the index"});
    verifier.check_fully(set);
    return verifier.outcome();
  };
  EXPECT_EQ(verdict(unwritten).detail, "b[3333333] was never written");
  EXPECT_EQ(verdict(-1).verdict, Verdict::pass) << "a right value that looks like poison";
}

TEST(SharedInputs, AreLetGoOfForOtherInputsAndCountedOnceWhereTheyAreThere) {
  int made = 0;
  const auto make = [&]() -> std::shared_ptr<const void> { return std::make_shared<const int>(++made); };
  const auto first = shared_input("a", "graph", make);
  EXPECT_EQ(shared_input("a", "graph", make), first);
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(holds_shared_input("a", "graph"));
  EXPECT_FALSE(holds_shared_input("a", "table"));
  EXPECT_FALSE(holds_shared_input("b", "graph"));
  const std::weak_ptr<const void> lives = first;
  EXPECT_EQ(lives.use_count(), 2);
  keep_only_inputs_of("b");
  EXPECT_EQ(lives.use_count(), 1) << "the next case needs the memory";
  EXPECT_FALSE(holds_shared_input("a", "graph"));
}

TEST(Checksum, TellsResultsApartAndPassesOverPadding) {
  std::vector<std::byte> bytes(3 * 128 + 7);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const auto sum = [&] { return checksum(bytes.data(), 100, 128, 3); };
  const auto before = sum();
  bytes[2 * 128 + 100] ^= std::byte{1};  // a byte of the padding
  EXPECT_EQ(sum(), before);
  for (const std::size_t at : {0u, 99u, 128u, 2 * 128 + 99u}) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(sum(), before) << at;
    bytes[at] ^= std::byte{1};
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + 100, bytes.begin() + 128);
  EXPECT_NE(sum(), before) << "rows in another order";
}

}  // namespace
}  // namespace isthmus::harness
