// Several emulated devices: ownership of memory, streams and events, and access to those of other devices.

#include <thread>

#include "fixture.hpp"

namespace emulator {
namespace {

class DevicesTest : public EmulatorTest {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    configure("devices=3,memory=16MiB");
  }
};

__global__ void add_to(int* value, const int* summand) {
  *value += *summand;
}
const LaunchShape one_thread{.grid = 1, .block = 1};

TEST_F(DevicesTest, AThreadSelectsForItself) {
  select(1);
  EXPECT_EQ(selected(), 1);
  std::thread([] {
    EXPECT_EQ(selected(), 0);
    select(2);
  }).join();
  EXPECT_EQ(selected(), 1);
  {
    const Selected two(2);
    EXPECT_EQ(selected(), 2);
    EXPECT_THROW(Selected(3), Error);
    EXPECT_EQ(selected(), 2);
  }
  EXPECT_EQ(selected(), 1);
}

TEST_F(DevicesTest, EachHasItsMemory) {
  constexpr std::size_t most = std::size_t{12} << 20;
  void* here = malloc_device(most);
  EXPECT_THROW(malloc_device(most), Error);
  select(1);
  EXPECT_EQ(memory_info().free, std::size_t{16} << 20);
  void* there = malloc_device(most);
  EXPECT_EQ(pointer_info(here).device, 0);
  EXPECT_EQ(pointer_info(there).device, 1);
  expect_mentions(error_of([&] { malloc_device(most); }), {"device 1's memory"});
  Stream of_one;
  select(2);
  void* pooled = malloc_pooled(64, of_one);
  EXPECT_EQ(pointer_info(pooled).device, 1) << "the stream's";
  free_pooled(pooled, of_one);
  of_one.synchronize();
  free_device(here);
  free_device(there);
  for (int device = 0; device < 3; ++device) {
    select(device);
    EXPECT_EQ(memory_info().free, memory_info().total);
  }
  void* pinned = malloc_pinned(64);
  void* managed = malloc_managed(64);
  EXPECT_EQ(pointer_info(pinned).device, -1);
  EXPECT_EQ(pointer_info(managed).device, 2);
  free_pinned(pinned);
  free_managed(managed);
}

TEST_F(DevicesTest, AKernelIsLaunchedWithItsStreamsDeviceSelected) {
  DeviceArray<int> value(std::vector<int>{1});
  Stream stream;
  select(1);
  expect_mentions(error_of([&] { launch(stream, EMULATOR_KERNEL(add_to), one_thread, value.get(), value.get()); }),
                  {"add_to", "the stream belongs to device 0, and device 1 is selected"});
  EXPECT_NO_THROW(fill_async(value.get(), 0, sizeof(int), stream)) << "copies do not need it";
  EXPECT_NO_THROW(stream.synchronize());
  EXPECT_TRUE(stream.idle());
}

TEST_F(DevicesTest, EventsKeepToTheirDeviceButAnyStreamWaits) {
  configure("devices=2,grace=30");
  DeviceArray<int> value(std::vector<int>{1});
  DeviceArray<int> summand(std::vector<int>{2});
  Stream producer;
  Event ready;
  select(1);
  DeviceArray<int> there(1);
  Stream consumer;
  Event foreign;
  expect_mentions(error_of([&] { foreign.record(producer); }),
                  {"event_record", "the event belongs to device 1, the stream to device 0"});
  {
    const Selected zero(0);
    launch(producer, EMULATOR_KERNEL(add_to), one_thread, value.get(), summand.get());
    ready.record(producer);
  }
  consumer.wait(ready);
  copy_async(there.get(), value.get(), sizeof(int), consumer);
  foreign.record(consumer);
  foreign.synchronize();
  ready.synchronize();
  EXPECT_EQ(there.host()[0], 3);
  expect_mentions(error_of([&] { elapsed(ready, foreign); }),
                  {"elapsed", "one event belongs to device 0, the other to device 1"});
}

TEST_F(DevicesTest, SynchronizeWaitsForTheSelectedDeviceOnly) {
  configure("devices=2,grace=30");
  DeviceArray<int> value(std::vector<int>{1}), summand(std::vector<int>{1});
  Stream stream;
  launch(stream, EMULATOR_KERNEL(add_to), one_thread, value.get(), summand.get());
  {
    const Selected one(1);
    synchronize();
  }
  EXPECT_EQ(value.host()[0], 1) << "nothing has demanded the work of device 0";
  synchronize();
  EXPECT_EQ(value.host()[0], 2);
}

__global__ void faulty() {
  shuffle(0, 1, 0);
}

TEST_F(DevicesTest, AFaultIsToldOnItsDevice) {
  for (const bool destroyed_first : {false, true}) {
    auto stream = std::make_unique<Stream>();
    launch(*stream, EMULATOR_KERNEL(faulty), one_thread);
    if (destroyed_first) stream.reset();
    {
      const Selected one(1);
      EXPECT_NO_THROW(synchronize());
    }
    EXPECT_THROW(synchronize(), Error);
  }
}

// --- peers -----------------------------------------------------------------------------------------

TEST_F(DevicesTest, AKernelNeedsAccessToAPeersMemory) {
  DeviceArray<int> summand(std::vector<int>{4});
  select(1);
  DeviceArray<int> value(std::vector<int>{1});
  Stream stream;
  const auto run = [&] {
    launch(stream, EMULATOR_KERNEL(add_to), one_thread, value.get(), summand.get());
    stream.synchronize();
  };
  expect_mentions(error_of(run), {"add_to", "argument 2", "memory of device 0, which device 1 may not reach",
                                  "select device 1 and call enable_peer_access(0)"});
  EXPECT_TRUE(peer_info(1, 0).access);
  enable_peer_access(0);
  enable_peer_access(0);
  run();
  EXPECT_EQ(value.host()[0], 5);
  {
    const Selected zero(0);
    Stream other_way;
    EXPECT_THROW(launch(other_way, EMULATOR_KERNEL(add_to), one_thread, summand.get(), value.get()), Error);
  }
  disable_peer_access(0);
  disable_peer_access(0);
  EXPECT_THROW(run(), Error);
  EXPECT_NO_THROW(enable_peer_access(1)) << "its own memory";
}

TEST_F(DevicesTest, PeerAccessDoesNotOpenAPool) {
  Stream owner;
  auto* pooled = static_cast<int*>(malloc_pooled(sizeof(int), owner));
  owner.synchronize();
  {
    const Selected one(1);
    enable_peer_access(0);
    Stream stream;
    expect_mentions(error_of([&] { launch(stream, EMULATOR_KERNEL(add_to), one_thread, pooled, pooled); }),
                    {"argument 1", "malloc_pooled memory of device 0", "the kernel runs on device 1"});
  }
  free_pooled(pooled, owner);
}

TEST_F(DevicesTest, PeerAccessCanBeAbsentAndCopiesWorkAllTheSame) {
  configure("devices=2,peer=0");
  EXPECT_FALSE(peer_info(0, 1).access);
  EXPECT_FALSE(peer_info(0, 1).native_atomics);
  EXPECT_TRUE(peer_info(1, 1).access);
  try {
    enable_peer_access(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    expect_mentions(error.what(), {"enable_peer_access", "device 0 cannot reach the memory of device 1"});
  }
  DeviceArray<int> here(std::vector<int>{7});
  select(1);
  DeviceArray<int> there(1);
  copy(there.get(), here.get(), sizeof(int));
  EXPECT_EQ(there.host()[0], 7);
}

struct Inside {
  int* value;
};
__global__ void increment_inside(Inside inside) {
  ++*inside.value;
}

// None of the arguments is a pointer, so the error can be detected only at the access.
TEST_F(DevicesTest, AKernelNeedsAccessToAPeersMemoryInsideAStruct) {
  DeviceArray<int> value(std::vector<int>{1});
  select(1);
  Stream stream;
  const auto run = [&] {
    launch(stream, EMULATOR_KERNEL(increment_inside), one_thread, Inside{value.get()});
    stream.synchronize();
  };
  expect_mentions(error_of(run), {"increment_inside", "malloc_device", "which device 1 may not reach"});
  enable_peer_access(0);
  run();
  EXPECT_EQ(value.host()[0], 2);
}

TEST_F(DevicesTest, FreeingWaitsForPeersThatReachTheMemory) {
  configure("devices=2,grace=30");
  auto* summand = static_cast<int*>(malloc_device(sizeof(int)));
  select(1);
  enable_peer_access(0);
  DeviceArray<int> value(1);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(add_to), one_thread, value.get(), summand);
  free_device(summand);
  EXPECT_NO_THROW(stream.synchronize());
}

TEST_F(DevicesTest, MappedMemoryIsReachedByAll) {
  auto* mapped = static_cast<int*>(malloc_pinned(sizeof(int), {.mapped = true}));
  *mapped = 1;
  for (int device = 0; device < 3; ++device) {
    select(device);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(add_to), one_thread, mapped, mapped);
    stream.synchronize();
  }
  EXPECT_EQ(*mapped, 8);
  free_pinned(mapped);
}

TEST_F(DevicesTest, ManagedMemoryIsPrefetchedToAnyDevice) {
  Stream stream;
  void* managed = malloc_managed(4096);
  prefetch(managed, 4096, Location::gpu(2), stream);
  EXPECT_EQ(last_prefetch(managed, 4096), 2);
  expect_mentions(error_of([&] { prefetch(managed, 4096, Location::gpu(3), stream); }), {"prefetch", "no device 3"});
  stream.synchronize();
  free_managed(managed);
}

// --- concurrency -----------------------------------------------------------------------------------

__global__ void meet(unsigned* flags, int own, int other) {
  store_release(&flags[own], 1u);
  spin_until([&] { return load_acquire(&flags[other]) == 1; });
}

TEST_F(DevicesTest, KernelsOfTwoDevicesMeet) {
  configure("devices=2,timeout=20");
  auto* flags = static_cast<unsigned*>(malloc_pinned(2 * sizeof(unsigned), {.mapped = true}));
  flags[0] = flags[1] = 0;
  Stream here;
  launch(here, EMULATOR_KERNEL(meet), one_thread, flags, 0, 1);
  const Selected one(1);
  Stream there;
  launch(there, EMULATOR_KERNEL(meet), one_thread, flags, 1, 0);
  here.synchronize();
  there.synchronize();
  EXPECT_EQ(flags[0] + flags[1], 2u);
  free_pinned(flags);
}

}  // namespace
}  // namespace emulator
