// Tests of random programs on this machine's device, including the emulated one. Their grids are as large as can be
// resident at once. At least eight programs run, and more until ISTHMUS_STRESS_SECONDS have passed, if that is set.

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <random>

#include "random_program.hpp"

namespace isthmus::paging {
namespace {

Machine large_machine(unsigned seed, bool lanes, const device::DeviceInfo& info) {
  std::mt19937 random(seed);
  const auto among = [&](unsigned first, unsigned last) {
    return std::uniform_int_distribution<unsigned>(first, last)(random);
  };
  const bool emulated = device::backend() == device::Backend::emulator;
  const auto warp = static_cast<unsigned>(info.warp_size);
  Machine machine;
  machine.options.page_bytes = std::size_t{4096} << among(0, 2);
  machine.options.eviction = static_cast<Eviction>(among(0, 2));
  machine.options.clean_ahead = among(0, 1) * among(1, 64);
  machine.options.deadline = 30;
  machine.blocks =
      emulated ? among(1, 3) : among(1, 2 * static_cast<unsigned>(info.multiprocessors)) / (lanes ? 8 : 1) + 1;
  Program& p = machine.program;
  p.seed = seed;
  p.warp = warp;
  p.lanes = lanes ? 1 : 0;
  p.steps = emulated ? 10 : 100;
  p.threads_of_block = warp * (emulated ? 1 : among(1, 8) / (lanes ? 4 : 1) + 1);
  p.threads = machine.blocks * p.threads_of_block;
  const unsigned holders = p.threads / (lanes ? 1 : warp);
  machine.options.frames = holders + among(0, holders / 4);
  const std::size_t pages = machine.options.frames / 2 + among(2, 64);
  machine.bytes = pages * machine.options.page_bytes - 8 * among(0, 300);
  p.elements = machine.bytes / sizeof(Word);
  return machine;
}

void expect_sound(bool lanes) {
  const device::DeviceInfo info = device::info(device::selected());
  const char* asked = std::getenv("ISTHMUS_STRESS_SECONDS");
  const double seconds = asked != nullptr ? std::atof(asked) : 0;
  const std::time_t begin = std::time(nullptr);
  unsigned programs = 0;
  while (programs < 8 || std::difftime(std::time(nullptr), begin) < seconds) {
    ++programs;
    ASSERT_EQ(outcome<Sound>(large_machine(programs, lanes, info)), "") << "seed " << programs;
  }
  testing::Test::RecordProperty("programs", static_cast<int>(programs));
}

TEST(PagingOnDevice, ProgramsOfWarpsLeaveWhatPlainArraysWould) {
  expect_sound(false);
}
TEST(PagingOnDevice, ProgramsOfLanesAloneLeaveWhatPlainArraysWould) {
  expect_sound(true);
}

}  // namespace
}  // namespace isthmus::paging
