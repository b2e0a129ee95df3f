// Tests of the chunked allocator by itself: growing, shrinking, its limit, failures, and how much memory it wastes.

#include "interjob/chunks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "emulator/emulator.hpp"

namespace isthmus::interjob {
namespace {

class Chunks : public testing::Test {
 protected:
  void SetUp() override {
    emulator::configure({});
    device::select(0);
    unit_ = device::memory_granularity();
    free_ = device::memory_info().free;
  }
  void TearDown() override {
    device::set_injection("");
    emulator::reset();
    emulator::configure({});
  }
  std::size_t unit_ = 0, free_ = 0;
};

TEST_F(Chunks, ABlockKeepsItsAddressesAndContentsWhileItGrows) {
  {
    ChunkPool pool(2 * unit_ - 1, 10 * unit_);
    ASSERT_EQ(pool.chunk_bytes(), 2 * unit_);
    ChunkedBlock first(pool, 7 * unit_), second(pool, 4 * unit_);
    EXPECT_EQ(first.size(), 8 * unit_);
    EXPECT_EQ(first.mapped(), 0u);
    ASSERT_TRUE(first.grow());
    EXPECT_FALSE(second.grow()) << "10 units are no room for 8 and 4";
    EXPECT_EQ(second.mapped(), 2 * unit_);
    void* const where = second.data();
    std::vector<unsigned char> pattern(4 * unit_, 0x5a), back(4 * unit_);
    device::copy(where, pattern.data(), 2 * unit_);
    first.shrink(6 * unit_);  // frees only the last chunk
    EXPECT_EQ(first.mapped(), 6 * unit_);
    ASSERT_TRUE(second.grow());
    EXPECT_EQ(second.data(), where);
    device::copy(static_cast<std::byte*>(where) + 2 * unit_, pattern.data(), 2 * unit_);
    device::copy(back.data(), where, 4 * unit_);  // crosses the boundary between two chunks
    EXPECT_EQ(back, pattern);
    EXPECT_EQ(pool.usage().peak, 10 * unit_);
    EXPECT_EQ(device::memory_info().free, free_ - 10 * unit_);
    first.shrink();
    EXPECT_EQ(pool.usage().idle, 6 * unit_);
    pool.trim();
    EXPECT_EQ(device::memory_info().free, free_ - 4 * unit_);
  }
  EXPECT_EQ(device::memory_info().free, free_);
}

TEST_F(Chunks, WhatTheDeviceRefusesIsAnErrorAndChangesNothing) {
  emulator::configure(emulator::parse("memory=1MiB"));
  free_ = device::memory_info().free;
  {
    ChunkPool pool(unit_);
    ChunkedBlock large(pool, 2 << 20), small(pool, unit_);
    EXPECT_FALSE(large.grow()) << "all that there is";
    EXPECT_EQ(large.mapped(), free_);
    EXPECT_THROW(small.grow(), device::Error);
    EXPECT_EQ(small.mapped(), 0u);
    large.shrink(free_ - unit_);
    EXPECT_TRUE(small.grow());
  }
  EXPECT_EQ(device::memory_info().free, free_);
  emulator::configure(emulator::parse("virtual_memory=0"));
  EXPECT_THROW(ChunkPool{unit_}, device::Error);
}

// Threads grow and shrink blocks of all sizes at random. Afterwards memory is not fragmented: blocks can use every
// chunk up to the limit, and a block exceeds its requested size by less than a chunk.
TEST_F(Chunks, NothingIsFragmentedWhateverWasDoneBefore) {
  constexpr std::size_t kThreads = 4, kBlocks = 5, kRounds = 150, kLimit = 64;
  for (const unsigned seed : {1u, 2u, 3u}) {
    {
      ChunkPool pool(unit_, kLimit * unit_);
      std::atomic<std::size_t> wrong = 0;
      const auto work = [&](unsigned which) {
        std::mt19937 random(seed * 100 + which);
        const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
        const device::Selected on(0);
        std::vector<std::unique_ptr<ChunkedBlock>> blocks(kBlocks);
        for (std::size_t round = 0; round < kRounds; ++round) {
          auto& block = blocks[below(kBlocks)];
          switch (below(4)) {
            case 0: {
              const std::size_t bytes = 1 + below(20 * unit_);
              block.reset();
              block = std::make_unique<ChunkedBlock>(pool, bytes);
              if (block->size() < bytes || block->size() >= bytes + pool.chunk_bytes()) ++wrong;
              break;
            }
            case 1:
              if (block) block->shrink(below(block->size() + 1));
              break;
            default:
              if (block) block->grow();
          }
          // The mapped memory is not shared with another block: both ends keep what this thread writes.
          if (block && block->mapped() > 0) {
            const std::uint64_t word = (std::uint64_t{which} << 32) | round;
            std::uint64_t first = 0, last = 0;
            auto* const at = static_cast<std::byte*>(block->data());
            device::copy(at, &word, sizeof word);
            device::copy(at + block->mapped() - sizeof word, &word, sizeof word);
            device::copy(&first, at, sizeof word);
            device::copy(&last, at + block->mapped() - sizeof word, sizeof word);
            if (first != word || last != word) ++wrong;
          }
          const auto usage = pool.usage();
          if (usage.used + usage.idle > kLimit * unit_) ++wrong;
        }
      };
      {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
      }
      EXPECT_EQ(wrong, 0u);
      EXPECT_EQ(pool.usage().used, 0u);
      ChunkedBlock odd(pool, 3 * unit_), rest(pool, (kLimit - 3) * unit_), one(pool, 1);
      EXPECT_TRUE(odd.grow());
      EXPECT_TRUE(rest.grow()) << "all that is left, in one piece";
      EXPECT_FALSE(one.grow());
    }
    EXPECT_EQ(device::memory_info().free, free_);
  }
}

TEST_F(Chunks, WhateverCallFailsBlocksStayAsTheyWere) {
  for (const std::string call : {"create_memory", "map_memory", "set_access"}) {
    for (int nth = 1; nth <= 6; ++nth) {
      {
        ChunkPool pool(unit_, 8 * unit_);
        ChunkedBlock block(pool, 4 * unit_), other(pool, 2 * unit_);
        device::set_injection(call + ":" + std::to_string(nth));
        for (auto* each : {&block, &other}) {
          const std::size_t before = each->mapped();
          try {
            each->grow();
          } catch (const device::Error&) {
            EXPECT_EQ(each->mapped(), before) << call << " " << nth;
          }
        }
        device::set_injection("");
        EXPECT_TRUE(block.grow());
        EXPECT_TRUE(other.grow());
        EXPECT_EQ(pool.usage().used, 6 * unit_);
      }
      EXPECT_EQ(device::memory_info().free, free_) << call << " " << nth;
    }
  }
  ChunkPool pool(unit_, 8 * unit_);
  {
    ChunkedBlock block(pool, 4 * unit_);
    block.grow();
    device::set_injection("unmap_memory:1");
    EXPECT_THROW(block.shrink(unit_), device::Error);
    device::set_injection("");
    EXPECT_EQ(block.mapped(), unit_);
    EXPECT_THROW(block.grow(), device::Error) << "nobody knows what is mapped there";
    // Unmaps the memory in place of the driver, which might do so later.
    device::unmap_memory(static_cast<std::byte*>(block.data()) + unit_, 3 * unit_);
  }
  EXPECT_EQ(pool.usage().used, 3 * unit_) << "what was lost stays counted";
  pool.trim();
  EXPECT_EQ(device::memory_info().free, free_);
}

}  // namespace
}  // namespace isthmus::interjob
