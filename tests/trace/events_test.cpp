// Tests that handmade bytes are decoded into the right events, and that arbitrary bytes do no harm.

#include "trace/uvm/events.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "bytes.hpp"
#include "trace/uvm/figures.hpp"

namespace isthmus::trace::uvm {
namespace {

template <class T>
T as(std::initializer_list<Field> fields) {
  const auto event = decode(entry_of(fields));
  if (!std::holds_alternative<T>(event)) ADD_FAILURE() << "another type: " << event.index();
  return std::holds_alternative<T>(event) ? std::get<T>(event) : T{};
}

TEST(UvmEvents, CpuFault) {
  const auto fault = as<CpuFault>({{0, 1, 1},
                                   {1, 1, 2},
                                   {4, 4, 77},
                                   {8, 8, 0x7f0012345000},
                                   {16, 8, 123456789012345},
                                   {24, 4, 4711},
                                   {28, 4, 4712},
                                   {32, 8, 0xffffffff81000000}});
  EXPECT_EQ(fault.access, 2);
  EXPECT_EQ(fault.cpu, 77u);
  EXPECT_EQ(fault.address, 0x7f0012345000u);
  EXPECT_EQ(fault.time, 123456789012345u);
  EXPECT_EQ(fault.process, 4711u);
  EXPECT_EQ(fault.thread, 4712u);
  EXPECT_EQ(fault.instruction, 0xffffffff81000000u);
}

TEST(UvmEvents, Migration) {
  const auto move = as<Migration>({{0, 1, 2},
                                   {1, 1, 3},
                                   {2, 1, 0},
                                   {3, 1, 5},
                                   {8, 8, 0x7f0000200000},
                                   {16, 8, 65536},
                                   {24, 8, 11},
                                   {32, 8, 12},
                                   {40, 8, 13},
                                   {48, 8, 14},
                                   {56, 8, 15}});
  EXPECT_EQ(move.cause, Cause::prefetch);
  EXPECT_EQ(move.source, 0);
  EXPECT_EQ(move.destination, 5);
  EXPECT_EQ(move.address, 0x7f0000200000u);
  EXPECT_EQ(move.bytes, 65536u);
  EXPECT_EQ(move.begin, 11u);
  EXPECT_EQ(move.end, 12u);
  EXPECT_EQ(move.range_group, 13u);
  EXPECT_EQ(move.gpu_begin, 14u);
  EXPECT_EQ(move.gpu_end, 15u);
}

TEST(UvmEvents, GpuFault) {
  const auto fault = as<GpuFault>({{0, 1, 3},
                                   {1, 1, 2},
                                   {2, 1, 3},
                                   {3, 1, 4},
                                   {4, 2, 0x1234},
                                   {6, 2, 0x5678},
                                   {8, 8, 0x7f0000201000},
                                   {16, 8, 21},
                                   {24, 8, 22},
                                   {32, 4, 0xfedcba98},
                                   {36, 1, 2}});
  EXPECT_EQ(fault.kind, 2);
  EXPECT_EQ(fault.access, 3);
  EXPECT_EQ(fault.gpu, 4);
  EXPECT_EQ(fault.gpc, 0x1234);
  EXPECT_EQ(fault.client, 0x5678);
  EXPECT_EQ(fault.address, 0x7f0000201000u);
  EXPECT_EQ(fault.time, 21u);
  EXPECT_EQ(fault.gpu_time, 22u);
  EXPECT_EQ(fault.batch, 0xfedcba98u);
  EXPECT_EQ(fault.client_kind, Client::hub);
}

TEST(UvmEvents, Replay) {
  const auto replay = as<Replay>({{0, 1, 4}, {1, 1, 9}, {2, 1, 1}, {4, 4, 0x89abcdef}, {8, 8, 31}, {16, 8, 32}});
  EXPECT_EQ(replay.gpu, 9);
  EXPECT_EQ(replay.client_kind, Client::gpc);
  EXPECT_EQ(replay.batch, 0x89abcdefu);
  EXPECT_EQ(replay.time, 31u);
  EXPECT_EQ(replay.gpu_time, 32u);
}

TEST(UvmEvents, FatalFault) {
  const auto fault = as<FatalFault>({{0, 1, 6}, {1, 1, 7}, {2, 1, 2}, {3, 1, 1}, {4, 1, 4}, {8, 8, 41}, {16, 8, 42}});
  EXPECT_EQ(fault.kind, 7);
  EXPECT_EQ(fault.processor, 1);
  EXPECT_EQ(fault.reason, 4);
  EXPECT_EQ(fault.address, 41u);
  EXPECT_EQ(fault.time, 42u);
}

TEST(UvmEvents, ReadDuplicates) {
  const auto begun = as<ReadDuplicate>({{0, 1, 7}, {8, 8, 3}, {16, 8, 51}, {24, 8, 52}, {32, 8, 53}});
  EXPECT_EQ(begun.processors, 3u);
  EXPECT_EQ(begun.address, 51u);
  EXPECT_EQ(begun.bytes, 52u);
  EXPECT_EQ(begun.time, 53u);
  const auto ended = as<ReadDuplicateEnd>({{0, 1, 8}, {1, 1, 2}, {8, 8, 54}, {16, 8, 55}, {24, 8, 56}});
  EXPECT_EQ(ended.resident, 2);
  EXPECT_EQ(ended.address, 54u);
  EXPECT_EQ(ended.bytes, 55u);
  EXPECT_EQ(ended.time, 56u);
}

TEST(UvmEvents, ThrashingAndThrottling) {
  const auto thrashing = as<Thrashing>({{0, 1, 10}, {8, 8, 5}, {16, 8, 61}, {24, 8, 62}, {32, 8, 63}});
  EXPECT_EQ(thrashing.processors, 5u);
  EXPECT_EQ(thrashing.address, 61u);
  EXPECT_EQ(thrashing.bytes, 62u);
  EXPECT_EQ(thrashing.time, 63u);
  for (const std::uint64_t type : {11, 12}) {
    const auto throttling = as<Throttling>({{0, 1, type}, {1, 1, 1}, {8, 8, 71}, {16, 8, 72}});
    EXPECT_EQ(static_cast<std::uint64_t>(throttling.type), type);
    EXPECT_EQ(throttling.processor, 1);
    EXPECT_EQ(throttling.address, 71u);
    EXPECT_EQ(throttling.time, 72u);
  }
}

TEST(UvmEvents, RemoteMap) {
  const auto map =
      as<RemoteMap>({{0, 1, 13}, {1, 1, 1}, {2, 1, 2}, {3, 1, 3}, {8, 8, 81}, {16, 8, 82}, {24, 8, 83}, {32, 8, 84}});
  EXPECT_EQ(map.source, 1);
  EXPECT_EQ(map.destination, 2);
  EXPECT_EQ(map.cause, 3);
  EXPECT_EQ(map.address, 81u);
  EXPECT_EQ(map.bytes, 82u);
  EXPECT_EQ(map.time, 83u);
  EXPECT_EQ(map.gpu_time, 84u);
}

TEST(UvmEvents, WhatNobodySendsOrKnowsIsCountedByItsType) {
  for (const std::uint64_t type : {0, 5, 9, 14, 15, 63, 255}) EXPECT_EQ(as<Other>({{0, 1, type}}).type, type);
}

// Arbitrary bytes decode to some event, its encoding decodes to the same event, and figures can be computed from
// arbitrary events.
TEST(UvmEvents, AMillionBuffersOfRandomBytes) {
  std::mt19937_64 random(20240817);
  std::set<std::size_t> kinds;
  std::vector<Event> some;
  for (int round = 0; round < 1'000'000; ++round) {
    Entry entry;
    for (std::size_t at = 0; at < entry.size(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(entry.data() + at, &word, 8);
    }
    if (round % 4 != 0) entry[0] = static_cast<std::byte>(random() % 16);  // makes known types of events likely
    const auto event = decode(entry);
    ASSERT_EQ(decode(encode(event)), event);
    kinds.insert(event.index());
    some.push_back(event);
    if (some.size() < 1000) continue;
    const auto figures = figures_of(some);
    ASSERT_LE(figures.pages, figures.faults);
    ASSERT_LE(figures.batches.size(), figures.faults);
    some.clear();
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Event>);
}

}  // namespace
}  // namespace isthmus::trace::uvm
