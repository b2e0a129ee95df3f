#include "memory/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace isthmus::memory {
namespace {

TEST(ParallelFor, VisitsEveryIndexOnce) {
  for (const std::size_t count : {0, 1, 2, 63, 64, 1000, 4097}) {
    std::vector<std::atomic<int>> visits(count);
    parallel_for(count, 16, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) ++visits[i];
    });
    for (const auto& visit : visits) EXPECT_EQ(visit, 1);
  }
}

TEST(ParallelFor, PassesOnAFailure) {
  EXPECT_THROW(parallel_for(1 << 20, 1,
                            [](std::size_t first, std::size_t) {
                              if (first > 0 || host_threads() == 1) throw std::runtime_error("no");
                            }),
               std::runtime_error);
}

TEST(FillHost, FillsAllAndNothingElse) {
  std::vector<std::byte> bytes((8 << 20) + 2, std::byte{1});
  fill_host(bytes.data() + 1, bytes.size() - 2, std::byte{0xff});
  EXPECT_EQ(bytes.front(), std::byte{1});
  EXPECT_EQ(bytes.back(), std::byte{1});
  for (std::size_t i = 1; i + 1 < bytes.size(); ++i) ASSERT_EQ(bytes[i], std::byte{0xff}) << i;
}

}  // namespace
}  // namespace isthmus::memory
