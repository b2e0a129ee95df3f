// Syntax of the EMULATOR variable.

#include "fixture.hpp"

namespace emulator {
namespace {

TEST(ConfigurationTest, EverythingCanBeSet) {
  const auto c = parse(
      "warp=64,order=seed:17,memory=1GiB,blocks=8,shared=48KiB,workers=3,lockstep=1,timeout=0.5,grace=0.25,managed=0,"
      "concurrent_managed=0,pageable_access=1,memory_pools=0,map_host=0,cooperative=0,async_copy=0,bulk_copy=0,"
      "virtual_memory=0,integrated=1,devices=8,peer=0,poison=large,queue=7,exit_report=0");
  EXPECT_EQ(c.warp_size, 64u);
  EXPECT_EQ(c.order, Order::seeded);
  EXPECT_EQ(c.seed, 17u);
  EXPECT_EQ(c.poison, Poison::large);
  EXPECT_EQ(c.memory_bytes, std::size_t{1} << 30);
  EXPECT_EQ(c.resident_blocks, 8u);
  EXPECT_EQ(c.shared_per_block, std::size_t{48} << 10);
  EXPECT_EQ(c.workers, 3u);
  EXPECT_EQ(c.queue, 7u);
  EXPECT_EQ(c.timeout, 0.5);
  EXPECT_EQ(c.grace, 0.25);
  EXPECT_TRUE(c.lockstep && c.pageable_access && c.integrated);
  EXPECT_EQ(c.devices, 8u);
  EXPECT_FALSE(c.peer_access || c.managed || c.concurrent_managed || c.memory_pools || c.map_host || c.cooperative ||
               c.async_copy || c.bulk_copy || c.virtual_memory || c.exit_report);
  EXPECT_EQ(parse("order=reverse").order, Order::reverse);
  EXPECT_EQ(parse("memory=12345").memory_bytes, 12345u);
}

TEST(ConfigurationTest, NonsenseIsRefusedInOneSentence) {
  for (const char* bad : {"warp=48", "order=random", "order=seed:", "memory=4GB", "memory=-1", "blocks=0",
                          "blocks=1000", "lockstep=yes", "timeout=abc", "nonsense=1", "warp", "memory=99999999999GiB",
                          "shared=2MiB", "devices=0", "devices=9", "peer=2", "poison=zero", "queue=0"}) {
    const std::string error = error_of([&] { parse(bad); });
    expect_mentions(error, {"EMULATOR: "});
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace emulator
