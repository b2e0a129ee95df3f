// Tests that bytes survive the path host → device → host in every placement and with every division into chunks. Copies
// on the device stand in for kernels, because this module does not depend on kernels.

#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <random>
#include <string>

#include "memory/buffer_set.hpp"

namespace isthmus::memory {

void PrintTo(Placement placement, std::ostream* out) {
  *out << name(placement);
}

namespace {

// Registration shown in docs/adding-a-placement.md.
const PlacementRegistration row({.name = "combined",
                                 .host = Kind::write_combined,
                                 .device = Kind::device,
                                 .in = Travel::asynchronous,
                                 .out = Travel::asynchronous});

std::byte pattern(std::size_t i) {
  return static_cast<std::byte>((i * 131 + i / 251) & 0x7f);
}

void fill_pattern(std::byte* begin, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) begin[i] = pattern(i);
}

/// Stands in for a kernel that copies `bytes` bytes starting at `offset`.
void copy_on_device(BufferSet& set, std::size_t from, std::size_t to, std::size_t offset, std::size_t bytes,
                    device::Stream& stream) {
  device::copy_async(set.device(to) + offset, set.device(from) + offset, bytes, stream);
}

class Placements : public testing::TestWithParam<Placement> {
 protected:
  void SetUp() override {
    device::set_injection("");
    if (const auto reason = unsupported_reason(GetParam(), device::info(0))) GTEST_SKIP() << *reason;
  }
  void TearDown() override { device::set_injection(""); }
};

TEST_P(Placements, WholeBuffersComeBackUnchanged) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{4096}, std::size_t{100003}}) {
    device::Stream stream;
    BufferSet set(GetParam(), {{"in", Role::input, bytes}, {"out", Role::output, bytes}, {"both", Role::inout, bytes}},
                  {});
    set.allocate_host();
    set.touch_host();
    fill_pattern(set.host(0), bytes);
    fill_pattern(set.host(2), bytes);
    set.allocate_device(stream);
    for (int sample = 0; sample < 2; ++sample) {
      set.reset(stream);
      set.copy_in(stream);
      copy_on_device(set, 0, 1, 0, bytes, stream);
      set.copy_out(stream);
      stream.synchronize();
      for (const std::size_t buffer : {0, 1, 2}) {
        for (std::size_t i = 0; i < bytes; ++i)
          ASSERT_EQ(set.host(buffer)[i], pattern(i)) << "buffer " << buffer << " byte " << i;
      }
    }
    EXPECT_TRUE(set.disagreements().empty()) << set.disagreements().front();
    set.free_device(stream);
    set.free_host();
  }
}

TEST_P(Placements, ResetPoisonsWhatAKernelMustWrite) {
  constexpr std::size_t kBytes = 10000;
  device::Stream stream;
  BufferSet set(GetParam(), {{"in", Role::input, kBytes}, {"out", Role::output, kBytes}}, {});
  set.allocate_host();
  set.touch_host();
  fill_pattern(set.host(0), kBytes);
  set.allocate_device(stream);
  set.reset(stream);
  set.copy_in(stream);
  set.copy_out(stream);  // without a kernel between the copies
  stream.synchronize();
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(set.host(1)[i], std::byte{0xff}) << i;
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(set.host(0)[i], pattern(i)) << i;
}

TEST_P(Placements, BytesAskedForAreCounted) {
  device::Stream stream;
  BufferSet set(GetParam(), {{"in", Role::input, 1000}, {"out", Role::output, 300}, {"both", Role::inout, 50}}, {});
  set.allocate_host();
  set.touch_host();
  set.allocate_device(stream);
  set.reset(stream);
  EXPECT_EQ(set.copy_in(stream), GetParam()->in == Travel::none ? 0u : 1050u);
  EXPECT_EQ(set.copy_out(stream), GetParam()->out == Travel::none ? 0u : 350u);
  stream.synchronize();
}

TEST_P(Placements, OnDemandAPartTravelsAndNothingElse) {
  constexpr std::size_t kBytes = 10000, kFirst = 1000, kCount = 300;
  device::Stream stream;
  BufferSet set(GetParam(), {{"part", Role::partial, kBytes}, {"out", Role::output, kBytes}}, {});
  set.allocate_host();
  set.touch_host();
  set.allocate_device(stream);
  set.reset(stream);
  fill_pattern(set.host(0), kBytes);
  EXPECT_EQ(set.copy_in(stream), 0u);
  EXPECT_EQ(set.copy_in(stream, 0, {kFirst, kCount}), GetParam()->in == Travel::none ? 0u : kCount);
  copy_on_device(set, 0, 1, 0, kBytes, stream);
  set.copy_out(stream);
  stream.synchronize();
  for (std::size_t i = 0; i < kBytes; ++i) {
    const bool came = !GetParam()->two_memories() || (i >= kFirst && i < kFirst + kCount);
    ASSERT_EQ(set.host(1)[i], came ? pattern(i) : std::byte{0xff}) << i;
  }
  // Only the requested part of the device's contents is copied out.
  for (std::size_t i = 0; i < kBytes; ++i) set.host(0)[i] = std::byte{1};
  EXPECT_EQ(set.copy_out(stream, 0, {kFirst, kCount / 2}), GetParam()->out == Travel::none ? 0u : kCount / 2);
  stream.synchronize();
  if (GetParam()->two_memories()) {
    EXPECT_EQ(set.host(0)[kFirst], pattern(kFirst));
    EXPECT_EQ(set.host(0)[kFirst - 1], std::byte{1});
    EXPECT_EQ(set.host(0)[kFirst + kCount / 2], std::byte{1});
  }
  EXPECT_THROW(set.copy_in(stream, 0, {kBytes, 1}), std::out_of_range);
  EXPECT_THROW(set.copy_out(stream, 0, {1, kBytes}), std::out_of_range);
  EXPECT_THROW(set.copy_in(stream, 0, {~std::size_t{0}, 2}), std::out_of_range);
}

TEST_P(Placements, ASourceIsBroughtPartByPart) {
  if (!GetParam()->two_memories()) GTEST_SKIP() << "nothing is copied";
  constexpr std::size_t kBytes = 10000, kFirst = 1000, kCount = 300, kPlace = 64;
  device::Stream stream;
  BufferSet set(GetParam(),
                {{"all", Role::host_source, kBytes}, {"part", Role::scratch, 1024}, {"out", Role::output, 1024}}, {});
  EXPECT_EQ(set.host_bytes(), kBytes + 1024);
  EXPECT_EQ(set.device_bytes(), 2 * 1024u);
  set.allocate_host();
  set.touch_host();
  fill_pattern(set.host(0), kBytes);
  set.allocate_device(stream);
  EXPECT_EQ(set.device(0), nullptr);
  set.reset(stream);
  EXPECT_EQ(set.copy_in(stream), 0u);
  EXPECT_EQ(set.copy_in(stream, 0, {kFirst, kCount}, 1, kPlace), kCount);
  copy_on_device(set, 1, 2, 0, 1024, stream);
  set.copy_out(stream);
  stream.synchronize();
  for (std::size_t i = 0; i < 1024; ++i) {
    const bool came = i >= kPlace && i < kPlace + kCount;
    ASSERT_EQ(set.host(2)[i], came ? pattern(i - kPlace + kFirst) : std::byte{0xff}) << i;
  }
  EXPECT_TRUE(set.disagreements().empty()) << set.disagreements().front();
  EXPECT_THROW(set.copy_in(stream, 0, {kBytes, 1}, 1, 0), std::out_of_range);
  EXPECT_THROW(set.copy_in(stream, 0, {0, 1025}, 1, 0), std::out_of_range);
  EXPECT_THROW(set.copy_in(stream, 0, {0, 1}, 1, 1024), std::out_of_range);
  EXPECT_THROW(set.copy_in(stream, 1, {0, 1}, 2, 0), std::logic_error);
  EXPECT_THROW(set.copy_in(stream, 0, {0, 1}, 2, 0), std::logic_error);
  EXPECT_THROW(set.copy_in(stream, 0, {0, 1}), std::logic_error);
  EXPECT_THROW(set.copy_out(stream, 0, {0, 1}), std::logic_error);
  EXPECT_THROW(set.fill(stream, 0, 0), std::logic_error);
  set.free_device(stream);
  set.free_host();
}

TEST_P(Placements, WhatIsTheHostsStaysThere) {
  constexpr std::size_t kBytes = 10000;
  device::Stream stream;
  BufferSet set(GetParam(), {{"own", Role::host, kBytes}}, {});
  EXPECT_EQ(set.host_bytes(), kBytes);
  EXPECT_EQ(set.device_bytes(), 0u);
  set.allocate_host();
  set.touch_host();
  set.allocate_device(stream);
  fill_pattern(set.host(0), kBytes);
  set.reset(stream);
  EXPECT_EQ(set.copy_in(stream), 0u);
  EXPECT_EQ(set.copy_out(stream), 0u);
  EXPECT_EQ(set.device(0), nullptr);
  EXPECT_FALSE(set.copied(0));
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(set.host(0)[i], pattern(i)) << i;
}

TEST_P(Placements, AFailureLeavesNothingBehind) {
  constexpr std::size_t kBytes = 1 << 20;
  const auto free_before = device::memory_info().free;
  for (const std::string call :
       {"malloc_pinned", "malloc_device", "malloc_pooled", "malloc_managed", "advise", "copy", "copy_async", "prefetch",
        "free_device", "free_pinned", "free_managed", "free_pooled"}) {
    device::set_injection(call + ":2");
    try {
      device::Stream stream;
      BufferSet set(GetParam(), {{"in", Role::input, kBytes}, {"out", Role::output, kBytes}}, {});
      set.allocate_host();
      set.touch_host();
      set.allocate_device(stream);
      set.reset(stream);
      set.copy_in(stream);
      set.copy_out(stream);
      stream.synchronize();
    } catch (const device::Error& error) {
      EXPECT_EQ(error.call(), call);
    }
    device::set_injection("");
    device::synchronize();
    // If a deallocation fails, its memory may be lost, as on a GPU; in all other cases all memory must be free again.
    if (call.rfind("free", 0) != 0) {
      EXPECT_EQ(device::memory_info().free, free_before) << call;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Placements, testing::ValuesIn(all_placements().begin(), all_placements().end()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

// For random shapes, numbers of chunks and halos: the copies in cover the data that each chunk needs and copy each byte
// once, and the copies out return all bytes.
TEST(Chunks, HaloChunksCoverExactly) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const std::size_t units = 1 + random() % 40, unit = 1 + random() % 300, halo = random() % 4;
    const std::size_t chunks = 1 + random() % 12;
    const std::size_t short_by = unit > 1 ? random() % unit : 0;  // bytes missing from the last unit
    const std::size_t bytes = units * unit - short_by;
    SCOPED_TRACE("units " + std::to_string(units) + " unit " + std::to_string(unit) + " halo " + std::to_string(halo) +
                 " chunks " + std::to_string(chunks));
    device::Stream stream;
    BufferSet set(*parse_placement("streamed"),
                  {{"in", Role::input, bytes, {unit, halo}},
                   {"out", Role::output, bytes, {unit, 0}},
                   {"whole", Role::input, 77},
                   {"sum", Role::output, 33}},
                  {});
    set.allocate_host();
    set.touch_host();
    fill_pattern(set.host(0), bytes);
    fill_pattern(set.host(2), 77);
    set.allocate_device(stream);
    set.reset(stream);
    std::size_t brought = 0, returned = 0;
    const auto ranges = cut(units, chunks);
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      const auto& chunk = ranges[k];
      brought += set.copy_in(stream, chunk, k == 0);
      // Copies out and compares the data that this chunk needs, which must be on the device now.
      const std::size_t first = chunk.first > halo ? chunk.first - halo : 0;
      const std::size_t begin = std::min(first * unit, bytes);
      const std::size_t end = std::min((chunk.first + chunk.count + halo) * unit, bytes);
      std::vector<std::byte> seen(end - begin);
      stream.synchronize();
      device::copy(seen.data(), set.device(0) + begin, seen.size());
      for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], pattern(begin + i)) << "chunk " << k;
      const std::size_t own = std::min(chunk.first * unit, bytes);
      const std::size_t own_end = std::min((chunk.first + chunk.count) * unit, bytes);
      copy_on_device(set, 0, 1, own, own_end - own, stream);
      if (k + 1 == ranges.size()) device::copy_async(set.device(3), set.device(2), 33, stream);
      returned += set.copy_out(stream, chunk, k + 1 == ranges.size());
    }
    stream.synchronize();
    EXPECT_EQ(brought, bytes + 77);
    EXPECT_EQ(returned, bytes + 33);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(set.host(1)[i], pattern(i)) << i;
    for (std::size_t i = 0; i < 33; ++i) ASSERT_EQ(set.host(3)[i], pattern(i)) << i;
  }
}

TEST(Placement, MayBeRegisteredOnce) {
  EXPECT_EQ(*parse_placement("combined"), all_placements().back());
  EXPECT_THROW(PlacementRegistration({.name = "pinned"}), std::logic_error);
}

TEST(BufferSet, CountsWhatItHolds) {
  const std::vector<BufferSpec> specs{{"a", Role::input, 100}, {"b", Role::output, 20}};
  EXPECT_EQ(BufferSet(*parse_placement("pinned"), specs, {}).host_bytes(), 120u);
  EXPECT_EQ(BufferSet(*parse_placement("pinned"), specs, {}).device_bytes(), 120u);
  EXPECT_EQ(BufferSet(*parse_placement("mapped"), specs, {}).device_bytes(), 0u);
  EXPECT_EQ(BufferSet(*parse_placement("managed"), specs, {}).device_bytes(), 120u);
  EXPECT_EQ(BufferSet(*parse_placement("unified"), specs, {}).host_bytes(), 0u);
}

TEST(BufferSet, SaysWhenPagesLieElsewhere) {
  // Binding to a node that does not exist fails, so the pages are on another node.
  device::Stream stream;
  BufferSet set(*parse_placement("pageable"), {{"a", Role::input, 1 << 16}}, {.numa_node = 999});
  set.allocate_host();
  set.touch_host();
  const auto found = set.disagreements();
  if (found.empty()) GTEST_SKIP() << "this kernel does not tell where pages lie";
  EXPECT_NE(found.front().find("NUMA node 999"), std::string::npos);
}

}  // namespace
}  // namespace isthmus::memory
