#include "memory/way.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "device/emulator/emulator.hpp"

namespace isthmus::memory {
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
    ASSERT_EQ(lack(each, device::info(0)), std::nullopt) << name(each);
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
      if (host_reaches(each, device::info(0))) {
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
       {Lack{"managed=0", Way::managed, "no managed memory"}, Lack{"map_host=0", Way::mapped, "mapped host memory"},
        Lack{"memory_pools=0", Way::pool, "stream-ordered"}, Lack{"pageable_access=0", Way::system, "plain malloc"}}) {
    configure(machine);
    const auto found = lack(way, device::info(0));
    ASSERT_TRUE(found) << machine;
    EXPECT_NE(found->find(reason), std::string::npos) << *found;
  }
}

TEST_F(Ways, AreSharedWhereTheDeviceSaysSo) {
  configure("concurrent_managed=0");
  EXPECT_FALSE(shared_at_once(Way::managed, device::info(0)));
  EXPECT_FALSE(host_reaches(Way::device, device::info(0)));
  configure("integrated=1");
  EXPECT_TRUE(shared_at_once(Way::managed, device::info(0)));
  EXPECT_TRUE(shared_at_once(Way::device, device::info(0)));
}

}  // namespace
}  // namespace isthmus::memory
