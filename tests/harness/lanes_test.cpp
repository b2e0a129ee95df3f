#include "workload/lanes.hpp"
#include "../emulated_machine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "device/kernel/kernel.hpp"

namespace isthmus::workload {
namespace {

__global__ void wait_seconds(double seconds) {
  const double begin = device::device_seconds();
  while (device::device_seconds() - begin < seconds) device::spin_wait();
}

Lane waiting(int gpu, double seconds) {
  Lane lane;
  lane.device = gpu;
  lane.queue = [=](device::Stream& stream) {
    launch(stream, ISTHMUS_KERNEL(wait_seconds), {.grid = 1, .block = 1}, seconds);
  };
  return lane;
}

class LanesOnMachines : public device::OnEmulatedMachine {};

TEST_P(LanesOnMachines, RunAtOnceAndAreTimedApartAndTogether) {
  const int other = device::count() - 1;
  Lanes lanes({waiting(0, 10e-3), waiting(other, 30e-3)}, true, 5);
  EXPECT_STREQ(lanes.timer(), "event");
  auto times = lanes.run();
  ASSERT_EQ(times.lanes.size(), 2u);
  // Other work on this machine may delay a lane, so the run is repeated until it is undisturbed.
  for (int turn = 0; turn < 50 && (times.invalid || times.lanes[0] >= times.all); ++turn) times = lanes.run();
  EXPECT_FALSE(times.invalid);
  EXPECT_GE(times.lanes[0], 10e-3);
  EXPECT_GE(times.lanes[1], 30e-3);
  EXPECT_GE(times.all, times.lanes[1]);  // `all` is the time from the first start to the last end
  EXPECT_LT(times.lanes[0], times.all);
}

TEST_P(LanesOnMachines, DivideByWhatIsRepeated) {
  Lanes lanes({waiting(0, 5e-3)}, true, 5);
  const auto times = lanes.run(4);
  EXPECT_GE(times.all, 5e-3);
  EXPECT_LT(times.all, 20e-3);
}

TEST_P(LanesOnMachines, LetGoWhenQueueingFails) {
  Lane failing;
  failing.device = device::count() - 1;
  failing.queue = [](device::Stream&) { throw std::runtime_error("no"); };
  Lanes lanes({waiting(0, 1e-3), failing}, true, 30);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(lanes.run(), std::runtime_error);
  lanes.synchronize();  // returns because the latch has released its work
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

INSTANTIATE_TEST_SUITE_P(Emulators, LanesOnMachines, testing::Values("devices=1", "devices=2"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

TEST(Lanes, SayWhenALatchGaveUp) {
  Lane slow;
  slow.queue = [](device::Stream&) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  EXPECT_TRUE(Lanes({slow}, true, 0.01).run().invalid);
  EXPECT_FALSE(Lanes({slow}, false, 0.01).run().invalid);
}

TEST(Lanes, ThatBlockHaveThreadsOfTheirOwn) {
  // Each lane waits for the other, so they would never end if they ran one after the other.
  std::barrier meeting(2);
  Lane lane;
  lane.blocking = true;
  lane.queue = [&](device::Stream&) { meeting.arrive_and_wait(); };
  Lanes lanes({lane, lane}, true, 5);
  EXPECT_STREQ(lanes.timer(), "clock");
  const auto times = lanes.run(3);
  EXPECT_GE(times.all, 0);
  EXPECT_EQ(times.lanes.size(), 2u);
}

TEST(Lanes, ThatBlockAndFailSayWhyAndLeaveNobodyWaiting) {
  Lane good, bad;
  good.blocking = bad.blocking = true;
  std::atomic<int> done = 0;
  good.queue = [&](device::Stream&) { ++done; };
  bad.queue = [](device::Stream&) { throw std::runtime_error("no"); };
  Lanes lanes({good, bad, good}, true, 5);
  EXPECT_THROW(lanes.run(), std::runtime_error);
  EXPECT_EQ(done, 2);
}

TEST(Lanes, WithoutAnyAreRefused) {
  EXPECT_THROW(Lanes({}, true, 5), std::logic_error);
}

}  // namespace
}  // namespace isthmus::workload
