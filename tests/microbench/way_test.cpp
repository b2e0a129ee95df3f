#include "microbench/way.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "device/emulator/emulator.hpp"

namespace isthmus::microbench {
namespace {

class Ways : public testing::Test {
 protected:
  void configure(const char* machine) { device::emulator::configure(device::emulator::parse(machine)); }
  void TearDown() override {
    device::emulator::configure({});
    device::emulator::reset();
  }
};

TEST_F(Ways, GiveMemoryThatCopiesReach) {
  configure("pageable_access=1");
  for (const Way each : all_ways()) {
    ASSERT_EQ(obstacle(each, Reader::gpu, device::info(0)), std::nullopt) << name(each);
    EXPECT_EQ(way(name(each)), each);
    const auto before = device::memory_info().free;
    {
      const WayBlock block(each, 8192);
      const std::vector<std::byte> written(8192, std::byte{7});
      std::vector<std::byte> read(8192);
      device::copy(block.data(), written.data(), written.size());
      device::copy(read.data(), block.data(), read.size());
      EXPECT_EQ(read, written) << name(each);
      EXPECT_TRUE(block.disagreements("it").empty()) << name(each);
      if (!obstacle(each, Reader::cpu, device::info(0))) {
        EXPECT_EQ(block.data()[8191], std::byte{7}) << name(each);
      }
    }
    EXPECT_EQ(device::memory_info().free, before) << name(each);
  }
  EXPECT_THROW(way("heap"), std::invalid_argument);
}

TEST_F(Ways, ThatADeviceLacksAreNamed) {
  struct Lack {
    const char* machine;
    Way way;
    const char* reason;
  };
  for (const auto& [machine, way, reason] :
       {Lack{"managed=0", Way::managed, "no managed memory"}, Lack{"map_host=0", Way::mapped, "map host memory"},
        Lack{"memory_pools=0", Way::pool, "stream-ordered"},
        Lack{"pageable_access=0", Way::malloced, "plain malloc"}}) {
    configure(machine);
    const auto found = obstacle(way, Reader::gpu, device::info(0));
    ASSERT_TRUE(found) << machine;
    EXPECT_NE(found->find(reason), std::string::npos) << *found;
  }
}

TEST_F(Ways, AreReachedAsTheDeviceCan) {
  device::DeviceInfo info;
  info.managed = info.memory_pools = info.can_map_host = true;
  const auto reaches = [&](Way way, Reader reader) { return !obstacle(way, reader, info); };
  for (const auto way : all_ways()) {
    EXPECT_EQ(reaches(way, Reader::cpu), !on_device(way)) << name(way);
    EXPECT_EQ(reaches(way, Reader::gpu), way != Way::malloced) << name(way);
  }
  info.integrated = info.pageable_access = true;  // an APU
  for (const auto way : all_ways()) {
    EXPECT_TRUE(reaches(way, Reader::cpu)) << name(way);
    EXPECT_TRUE(reaches(way, Reader::gpu)) << name(way);
  }
  info.can_map_host = info.managed = info.memory_pools = false;
  for (const auto way : {Way::mapped, Way::write_combined, Way::managed, Way::static_managed, Way::pool})
    EXPECT_FALSE(reaches(way, Reader::gpu)) << name(way);
  EXPECT_FALSE(reaches(Way::pinned, Reader::gpu));
  EXPECT_TRUE(reaches(Way::pinned, Reader::cpu));
}

TEST_F(Ways, AreSharedWhereTheDeviceSaysSo) {
  configure("concurrent_managed=0");
  EXPECT_FALSE(shared_at_once(Way::managed, device::info(0)));
  EXPECT_TRUE(obstacle(Way::device, Reader::cpu, device::info(0)));
  configure("integrated=1");
  EXPECT_TRUE(shared_at_once(Way::managed, device::info(0)));
  EXPECT_TRUE(shared_at_once(Way::device, device::info(0)));
}

}  // namespace
}  // namespace isthmus::microbench
