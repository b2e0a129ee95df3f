#include "memory/host_cache.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace isthmus::memory {
namespace {

TEST(HostCache, FlushingChangesNoByteOfAnyRange) {
  std::vector<std::byte> bytes((std::size_t{3} << 20) + 5);  // enough bytes for the flush to use two threads
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const auto before = bytes;
  for (const std::size_t first : {0, 1, 63, 64, 65}) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{127}, bytes.size() - 65}) {
      flush_host_caches(bytes.data() + first, count);
    }
  }
  EXPECT_EQ(bytes, before);
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(HostCache, ThisCpuCan) {
  std::vector<std::byte> bytes(100);
  EXPECT_TRUE(flush_host_caches(bytes.data(), bytes.size()));
}
#endif

}  // namespace
}  // namespace isthmus::memory
