#include "memory/block.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "emulator/emulator.hpp"
#include "memory/pages.hpp"

namespace isthmus::memory {
namespace {

std::vector<Kind> kinds() {
  std::vector<Kind> kinds;
  for (const auto& row : all_kinds()) kinds.push_back(row.kind);
  return kinds;
}

class Kinds : public testing::Test {
 protected:
  void configure(const char* machine) { emulator::configure(emulator::parse(machine)); }
  void TearDown() override {
    emulator::configure({});
    emulator::reset();
  }
};

TEST_F(Kinds, GiveMemoryThatCopiesReach) {
  configure("pageable_access=1");
  for (const Kind each : kinds()) {
    ASSERT_EQ(unsupported_reason(each, Reader::gpu, device::info(0)), std::nullopt) << name(each);
    const auto before = device::memory_info().free;
    {
      const Block block(each, 8192);
      const std::vector<std::byte> written(8192, std::byte{7});
      std::vector<std::byte> read(8192);
      device::copy(block.data(), written.data(), written.size());
      device::copy(read.data(), block.data(), read.size());
      EXPECT_EQ(read, written) << name(each);
      EXPECT_TRUE(block.disagreements("it").empty()) << name(each);
      if (!unsupported_reason(each, Reader::cpu, device::info(0))) {
        EXPECT_EQ(block.data()[8191], std::byte{7}) << name(each);
      }
    }
    EXPECT_EQ(device::memory_info().free, before) << name(each);
  }
}

TEST_F(Kinds, AreFoundByTheirNames) {
  for (const Kind each : kinds()) EXPECT_EQ(kind_named(name(each)), each);
  for (const char* other : {"malloc", "wc", "system", ""}) EXPECT_THROW(kind_named(other), std::invalid_argument);
}

TEST_F(Kinds, TakeBackOnlyTheirOwnMemory) {
  device::Stream stream;
  const std::size_t page = page_bytes();
  std::vector<std::byte> spare(3 * page);
  const auto address = reinterpret_cast<std::uintptr_t>(spare.data());
  const Request request{.bytes = page, .stream = &stream, .memory = spare.data() + ((page - address % page) % page)};
  // Kinds that the driver does not distinguish are freed by the same call, except for these.
  const auto own_call = [](const KindFacts& kind) {
    return kind.pointer_kind == device::PointerKind::device || kind.kind == Kind::registered;
  };
  std::size_t refused = 0;
  for (const auto& giver : all_kinds()) {
    if (!giver.asks_device) continue;  // free() does not refuse foreign memory; only sanitizers do
    for (const auto& taker : all_kinds()) {
      if (!taker.asks_device) continue;
      void* pointer = allocate(giver.kind, request);
      stream.synchronize();
      const bool same = giver.kind == taker.kind ||
                        (giver.pointer_kind == taker.pointer_kind && !own_call(giver) && !own_call(taker));
      if (same) {
        EXPECT_NO_THROW(release(taker.kind, pointer, request)) << giver.name << " " << taker.name;
      } else {
        EXPECT_THROW(release(taker.kind, pointer, request), device::Error) << giver.name << " by " << taker.name;
        ++refused;
        release(giver.kind, pointer, request);
      }
      stream.synchronize();
    }
  }
  EXPECT_GT(refused, 40u);
}

TEST_F(Kinds, ThatADeviceLacksAreNamed) {
  struct Lack {
    const char* machine;
    Kind kind;
    const char* reason;
  };
  for (const auto& [machine, kind, reason] :
       {Lack{"managed=0", Kind::managed, "no managed memory"}, Lack{"map_host=0", Kind::mapped, "map host memory"},
        Lack{"memory_pools=0", Kind::pool, "stream-ordered"},
        Lack{"pageable_access=0", Kind::pageable, "pageable memory"}}) {
    configure(machine);
    const auto found = unsupported_reason(kind, Reader::gpu, device::info(0));
    ASSERT_TRUE(found) << machine;
    EXPECT_NE(found->find(reason), std::string::npos) << *found;
  }
}

TEST_F(Kinds, AreReachedAsTheDeviceCan) {
  device::DeviceInfo info;
  info.managed = info.memory_pools = info.can_map_host = info.virtual_memory = true;
  const auto reaches = [&](Kind kind, Reader reader) { return !unsupported_reason(kind, reader, info); };
  for (const auto kind : kinds()) {
    EXPECT_EQ(reaches(kind, Reader::cpu), !on_device(kind)) << name(kind);
    EXPECT_EQ(reaches(kind, Reader::gpu), kind != Kind::pageable) << name(kind);
  }
  info.integrated = info.pageable_access = true;  // as on an APU
  for (const auto kind : kinds()) {
    EXPECT_TRUE(reaches(kind, Reader::cpu)) << name(kind);
    EXPECT_TRUE(reaches(kind, Reader::gpu)) << name(kind);
  }
  info.can_map_host = info.managed = info.memory_pools = false;
  for (const auto kind : {Kind::mapped, Kind::write_combined, Kind::managed, Kind::static_managed, Kind::pool})
    EXPECT_FALSE(reaches(kind, Reader::gpu)) << name(kind);
  EXPECT_FALSE(reaches(Kind::pinned, Reader::gpu));
  EXPECT_TRUE(reaches(Kind::pinned, Reader::cpu));
}

TEST_F(Kinds, AreSharedWhereTheDeviceSaysSo) {
  configure("concurrent_managed=0");
  EXPECT_FALSE(shared_at_once(Kind::managed, device::info(0)));
  EXPECT_TRUE(unsupported_reason(Kind::device, Reader::cpu, device::info(0)));
  configure("integrated=1");
  EXPECT_TRUE(shared_at_once(Kind::managed, device::info(0)));
  EXPECT_TRUE(shared_at_once(Kind::device, device::info(0)));
}

}  // namespace
}  // namespace isthmus::memory
