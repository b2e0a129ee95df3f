// Tests that random programs with random page sizes, frames and eviction policies have the same results as with plain
// arrays, and different results if the protocol has a bug.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../emulated_machine.hpp"
#include "random_program.hpp"

namespace isthmus::paging {
namespace {

/// Returns a machine with warps of `warp` lanes and so few frames that pages are constantly evicted.
Machine random_machine(unsigned seed, unsigned warp, bool lanes) {
  std::mt19937 random(seed);
  const auto among = [&](unsigned first, unsigned last) {
    return std::uniform_int_distribution<unsigned>(first, last)(random);
  };
  Machine machine;
  machine.options.page_bytes = std::size_t{4096} << (among(0, 3) == 0 ? among(1, 3) : 0);
  machine.options.eviction = static_cast<Eviction>(among(0, 2));
  machine.options.deadline = 60;
  machine.blocks = among(2, 4);
  const unsigned warps = lanes ? 1 : among(1, 3);
  Program& p = machine.program;
  p.seed = seed;
  p.warp = warp;
  p.lanes = lanes ? 1 : 0;
  p.steps = lanes ? 12 : 40;
  p.threads_of_block = warps * warp;
  p.threads = machine.blocks * p.threads_of_block;
  const unsigned holders = lanes ? p.threads : machine.blocks * warps;
  machine.options.frames = holders + among(0, 3);
  machine.options.clean_ahead = among(0, 1) * among(1, 3);
  // The last page is partial, and its number of bytes need not be a multiple of 16.
  const std::size_t pages = machine.options.frames / 2 + among(1, 4);
  machine.bytes = pages * machine.options.page_bytes - 8 * among(0, 300);
  p.elements = machine.bytes / sizeof(Word);
  return machine;
}

class Programs : public device::OnEmulatedMachine {};

TEST_P(Programs, OfWarpsLeaveWhatPlainArraysWould) {
  const unsigned warp = emulator::configuration().warp_size;
  for (unsigned seed = 1; seed <= 20; ++seed)
    ASSERT_EQ(outcome<Sound>(random_machine(seed, warp, false)), "") << "seed " << seed;
}

TEST_P(Programs, OfLanesAloneLeaveWhatPlainArraysWould) {
  const unsigned warp = emulator::configuration().warp_size;
  for (unsigned seed = 1; seed <= 10; ++seed)
    ASSERT_EQ(outcome<Sound>(random_machine(seed, warp, true)), "") << "seed " << seed;
}

TEST_P(Programs, ThroughAProxyLeaveWhatPlainArraysWould) {
  auto configuration = emulator::configuration();
  configuration.grace = 0;  // starts work at once, because the program never waits for or queries a proxy's streams
  emulator::configure(configuration);
  const unsigned warp = configuration.warp_size;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Machine machine = random_machine(seed, warp, seed % 5 == 0);
    machine.options.transport = Transport::proxy;
    machine.options.queues = 1 + seed % 3;
    machine.options.depth = 1 + seed % 4;
    ASSERT_EQ(outcome<Sound>(machine), "") << "seed " << seed;
  }
}

/// Protocol in which a thread lets others run at every point where it may be interrupted.
struct Yielding : Sound {
  static constexpr bool yields = true;
};

TEST_P(Programs, ThatYieldWhereverTheyMayLeaveWhatPlainArraysWould) {
  const unsigned warp = emulator::configuration().warp_size;
  for (unsigned seed = 1; seed <= 10; ++seed)
    ASSERT_EQ(outcome<Yielding>(random_machine(seed, warp, seed % 5 == 0)), "") << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(Machines, Programs,
                         testing::Values("warp=32,workers=4", "warp=64,workers=4", "warp=32,order=seed:3,workers=4",
                                         "warp=64,order=reverse,workers=4", "warp=32,lockstep=1,workers=4",
                                         "warp=64,lockstep=1,workers=4"));

// --- planted bugs ------------------------------------------------------------------------------------

struct ServesEarly : Sound {
  static constexpr bool serve_early = true;
};
struct HoldsNothing : Sound {
  static constexpr bool hold_nothing = true;
};
struct SaysDirtyLate : Sound {
  static constexpr bool dirty_late = true;
};
struct LeaksReference : Sound {
  static constexpr bool leak_reference = true;
};
struct NumbersLate : Sound {
  static constexpr bool number_late = true;
};

// Bugs that show only if other threads run between reading a page's state and exchanging it.
struct EvictsUnseen : Yielding {
  static constexpr bool evicts_unseen = true;
};
struct CleansUnseen : Yielding {
  static constexpr bool cleans_unseen = true;
};
struct EvictsRescued : Yielding {
  static constexpr bool evicts_rescued = true;
};
struct CleansOver : Yielding {
  static constexpr bool cleans_over = true;
};

template <class Bug>
class Planted : public device::EmulatorTest {};
using Bugs = testing::Types<ServesEarly, HoldsNothing, SaysDirtyLate, LeaksReference, NumbersLate, EvictsUnseen,
                            CleansUnseen, EvictsRescued, CleansOver>;
TYPED_TEST_SUITE(Planted, Bugs);

TYPED_TEST(Planted, IsFoundWithinTenRepeats) {
  this->configure("workers=4");
  std::string found;
  unsigned seed = 0;
  while (found.empty() && ++seed <= 10) {
    Machine machine = random_machine(seed, 32, false);
    machine.options.deadline = 0.5;
    found = outcome<TypeParam>(machine);
  }
  EXPECT_NE(found, "") << "ten programs did not show it";
  this->RecordProperty("repeats", static_cast<int>(seed));
  this->RecordProperty("found", found);
}

// if (lane() == 0) a[i] = 7;
template <class Protocol>
__global__ void one_lane_writes(Array<Word, Protocol> a, Word i) {
  if (device::lane() == 0) a[i] = 7;
}

/// Returns the value on the host of an element that one lane wrote, after all pages were flushed or cleared by `end`.
template <class Protocol>
Word written_by_one_lane(void (Pager::*end)(device::Stream&)) {
  const memory::Block block(memory::Kind::mapped, 4 * 4096);
  Pager pager({.page_bytes = 4096, .frames = 4});
  device::Stream stream;
  pager.launch(stream, ISTHMUS_KERNEL(one_lane_writes<Protocol>), {.grid = 1, .block = 32}, {},
               Array<Word, Protocol>(pager.open(block, "numbers")), Word{5});
  (pager.*end)(stream);
  pager.check(stream);
  Word found = 0;
  std::memcpy(&found, block.data() + 5 * sizeof(Word), sizeof found);
  return found;
}

struct LoneLaneClean : Sound {
  static constexpr bool lone_lane_clean = true;
};

class OneLane : public device::EmulatorTest {};

TEST_F(OneLane, ThatWritesReachesTheHost) {
  EXPECT_EQ(written_by_one_lane<Sound>(&Pager::flush), 7u);
  EXPECT_EQ(written_by_one_lane<Sound>(&Pager::clear), 7u);
  EXPECT_NE(written_by_one_lane<LoneLaneClean>(&Pager::flush), 7u) << "the planted bug is not seen";
}

}  // namespace
}  // namespace isthmus::paging
