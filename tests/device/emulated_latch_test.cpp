// Tests of the spin latch on the emulated device, and of the work that it holds back.

#include <chrono>
#include <optional>
#include <thread>

#include "emulator_fixture.hpp"

namespace isthmus::device {
namespace {

using LatchTest = EmulatorTest;

__global__ void set(int* value, int to) {
  *value = to;
}

__global__ void add_to(int* value, const int* summand) {
  *value += *summand;
}
const LaunchShape one_thread{.grid = 1, .block = 1};

TEST_F(LatchTest, IdleAndDoneAskWithoutWaiting) {
  DeviceArray<int> value(1);
  Stream stream;
  Event event;
  EXPECT_TRUE(stream.idle());
  EXPECT_TRUE(event.done()) << "never recorded";
  SpinLatch latch;
  latch.hold(stream);
  launch(stream, ISTHMUS_KERNEL(set), {.grid = 1, .block = 1}, value.get(), 2);
  event.record(stream);
  EXPECT_FALSE(stream.idle());
  EXPECT_FALSE(event.done());
  latch.release();
  event.synchronize();
  EXPECT_TRUE(event.done());
  stream.synchronize();
  EXPECT_TRUE(stream.idle());
}

TEST_F(LatchTest, EventsTellTheTimeBetween) {
  Stream stream;
  Event begin, end;
  EXPECT_THROW(elapsed(begin, end), Error);
  SpinLatch latch;
  begin.record(stream);
  latch.hold(stream);
  end.record(stream);
  begin.synchronize();
  EXPECT_THROW(elapsed(begin, end), Error) << "the end has not happened";
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  latch.release();
  stream.synchronize();
  EXPECT_GE(elapsed(begin, end), 0.015);
  EXPECT_LT(elapsed(end, begin), 0);
  EXPECT_GT(timer_tick(), 0);
}

TEST_F(LatchTest, SpinLatchHoldsUntilReleased) {
  DeviceArray<int> value(std::vector<int>{1});
  Stream stream;
  SpinLatch latch;
  for (int round = 0; round < 3; ++round) {
    latch.hold(stream);
    launch(stream, ISTHMUS_KERNEL(set), {.grid = 1, .block = 1}, value.get(), round + 10);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(value.host()[0], round == 0 ? 1 : round + 9);
    latch.release();
    stream.synchronize();
    EXPECT_EQ(value.host()[0], round + 10);
    EXPECT_FALSE(latch.timed_out());
  }
}

TEST_F(LatchTest, SpinLatchGivesUp) {
  Stream stream;
  SpinLatch latch;
  latch.hold(stream, 0.02);
  stream.synchronize();
  EXPECT_TRUE(latch.timed_out());
  latch.release();
  latch.hold(stream);
  latch.release();
  stream.synchronize();
  EXPECT_FALSE(latch.timed_out());
}

__global__ void increment(int* value) {
  ++*value;
}

// Queues `launches` kernels, or one graph with that many kernels, behind the latch. Returns the value that the last
// kernel wrote.
int run_behind(SpinLatch& latch, int launches, bool as_graph, double timeout) {
  DeviceArray<int> value(std::vector<int>{0});
  Stream stream;
  const auto queue = [&] {
    for (int i = 0; i < launches; ++i) launch(stream, ISTHMUS_KERNEL(increment), {.grid = 1, .block = 1}, value.get());
  };
  std::optional<ExecutableGraph> graph;
  if (as_graph) graph.emplace(Graph(stream, queue));
  latch.hold(stream, timeout);
  if (graph) {
    graph->launch(stream);
  } else {
    queue();
  }
  latch.release();
  stream.synchronize();
  return value.host()[0];
}

TEST_F(LatchTest, ALaunchBehindAFullHeldQueueWaitsForTheTimeOut) {
  SpinLatch latch;
  EXPECT_EQ(run_behind(latch, 900, false, 20), 900);
  EXPECT_FALSE(latch.timed_out());
  EXPECT_EQ(run_behind(latch, 1021, false, 20), 1021);
  EXPECT_FALSE(latch.timed_out());
  EXPECT_EQ(run_behind(latch, 1100, false, 0.05), 1100);
  EXPECT_TRUE(latch.timed_out());
}

TEST_F(LatchTest, AGraphIsOneEntryOfTheQueue) {
  SpinLatch latch;
  EXPECT_EQ(run_behind(latch, 3000, true, 20), 3000);
  EXPECT_FALSE(latch.timed_out());
}

TEST_F(LatchTest, DevicesHeldByTheirLatchesRunAtTheSameTime) {
  configure("devices=2");
  struct Held {
    Selected own;
    DeviceArray<int> value{std::vector<int>{1}};
    Stream stream{};
    SpinLatch latch{};
    explicit Held(int device) : own(device) {}
  };
  Held zero(0), one(1);
  const auto queue = [&](Held& held, int device) {
    const Selected own(device);
    held.latch.hold(held.stream);
    launch(held.stream, ISTHMUS_KERNEL(add_to), one_thread, held.value.get(), held.value.get());
  };
  queue(zero, 0);
  queue(one, 1);
  EXPECT_FALSE(zero.stream.idle());
  EXPECT_FALSE(one.stream.idle());
  one.latch.release();
  one.stream.synchronize();
  EXPECT_FALSE(zero.stream.idle()) << "the other device's latch is not its own";
  zero.latch.release();
  zero.stream.synchronize();
  for (Held* held : {&zero, &one}) {
    EXPECT_EQ(held->value.host()[0], 2);
    EXPECT_FALSE(held->latch.timed_out());
  }
}

TEST_F(LatchTest, ALatchHoldsStreamsOfItsDevice) {
  configure("devices=2");
  SpinLatch latch;
  select(1);
  Stream stream;
  expect_mentions(error_of([&] { latch.hold(stream); }),
                  {"spin_latch_hold", "the latch belongs to device 0, and device 1 is selected"});
}

__global__ void write_at(float* out, long long i) {
  out[i] = 1;
}

using LatchDeathTest = EmulatorTest;

TEST_F(LatchDeathTest, HostDereferenceBesideARunningKernel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto* device = static_cast<volatile float*>(malloc_device(4096));
  Stream held, other;
  const auto dereference = [&] {
    SpinLatch latch;
    latch.hold(held);
    launch(other, ISTHMUS_KERNEL(write_at), {.grid = 1, .block = 1}, const_cast<float*>(device), 0LL);
    other.synchronize();
    EXPECT_FALSE(held.idle());
    (void)device[0];
  };
  EXPECT_DEATH(dereference(), "the host dereferenced device memory");
  free_device(const_cast<float*>(device));
}

}  // namespace
}  // namespace isthmus::device
