// Cooperative launches, waits for flags, time-outs and lockstep.

#include <atomic>
#include <chrono>
#include <limits>

#include "fixture.hpp"

namespace emulator {
namespace {

using GridTest = EmulatorTest;

// --- grid_sync -------------------------------------------------------------------------------------

__global__ void prefix_of_blocks(int* partial, int* out) {
  for (int round = 0; round < 3; ++round) {
    const int sum = __syncthreads_count(1) * (static_cast<int>(blockIdx.x) + 1) + round;
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    grid_sync();
    int total = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];
    grid_sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
  }
}

TEST_F(GridTest, GridSyncOrdersBlocks) {
  for (const int blocks : {1, 8, 16}) {
    configure("order=seed:4");
    DeviceArray<int> partial(static_cast<std::size_t>(blocks)), out(static_cast<std::size_t>(blocks) * 32);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(prefix_of_blocks),
           {.grid = static_cast<unsigned>(blocks), .block = 32, .cooperative = true}, partial.get(), out.get());
    stream.synchronize();
    for (int v : out.host()) ASSERT_EQ(v, 32 * blocks * (blocks + 1) / 2 + 2 * blocks);
  }
}

TEST_F(GridTest, MoreBlocksThanResidentAreRefused) {
  configure("blocks=8");
  Stream stream;
  DeviceArray<int> out(32);
  const std::string error = error_of([&] {
    launch(stream, EMULATOR_KERNEL(prefix_of_blocks), {.grid = 9, .block = 32, .cooperative = true}, out.get(),
           out.get());
  });
  expect_mentions(error, {"launch", "prefix_of_blocks", "9 blocks", "8"});
}

__global__ void block_misses_grid_sync() {
  if (blockIdx.x == 2) return;
  grid_sync();
}
__global__ void thread_misses_grid_sync() {
  if (blockIdx.x == 1 && threadIdx.x == 3) return;
  grid_sync();
}
__global__ void different_grid_syncs() {
  if (blockIdx.x == 1) {  // NOLINT(bugprone-branch-clone): two different barriers are intended
    grid_sync();
  } else {
    grid_sync();
  }
}

TEST_F(GridTest, GridSyncThatCannotEndIsNamed) {
  Stream stream;
  const LaunchShape shape{.grid = 4, .block = 8, .cooperative = true};
  launch(stream, EMULATOR_KERNEL(block_misses_grid_sync), shape);
  expect_mentions(error_of([&] { stream.synchronize(); }),
                  {"block_misses_grid_sync", "grid_test.cpp:", "3 of 4 blocks", "(2,0,0)"});
  launch(stream, EMULATOR_KERNEL(thread_misses_grid_sync), shape);
  expect_mentions(error_of([&] { stream.synchronize(); }), {"thread_misses_grid_sync", "grid_sync", "have returned"});
  launch(stream, EMULATOR_KERNEL(different_grid_syncs), shape);
  expect_mentions(error_of([&] { stream.synchronize(); }), {"different_grid_syncs", "different grid barriers"});
}

TEST_F(GridTest, GridSyncNeedsACooperativeLaunch) {
  Stream stream;
  launch(stream, EMULATOR_KERNEL(block_misses_grid_sync), {.grid = 1, .block = 8});
  expect_mentions(error_of([&] { stream.synchronize(); }), {"not cooperative"});
}

// --- flags -----------------------------------------------------------------------------------------

// Each block waits for the next one. Ordinary launches may do this if all their blocks fit on the device.
__global__ void chain(unsigned* flags, int* out) {
  if (threadIdx.x == 0) {
    if (blockIdx.x + 1 < gridDim.x) {
      spin_until([&] { return load_acquire(&flags[blockIdx.x + 1]) != 0; });
      out[blockIdx.x] = out[blockIdx.x + 1] + 1;
    } else {
      out[blockIdx.x] = 0;
    }
    store_release(&flags[blockIdx.x], 1u);
  }
  __syncthreads();
}

TEST_F(GridTest, BlocksWaitForEachOther) {
  for (const bool cooperative : {true, false}) {
    for (const char* order : {"order=natural", "order=reverse", "order=seed:2"}) {
      configure(order);
      DeviceArray<unsigned> flags(std::vector<unsigned>(12, 0));
      DeviceArray<int> out(12);
      Stream stream;
      launch(stream, EMULATOR_KERNEL(chain), {.grid = 12, .block = 4, .cooperative = cooperative}, flags.get(),
             out.get());
      stream.synchronize();
      EXPECT_EQ(out.host()[0], 11) << order << cooperative;
    }
  }
}

__global__ void answer(unsigned* mailbox) {
  while (load_acquire(&mailbox[0]) == 0) spin_wait();
  store_release(&mailbox[1], mailbox[0] * 2);
}

// The host communicates with the kernel without synchronising: the kernel starts after the grace time.
TEST_F(GridTest, HostAndKernelTalkThroughMappedMemory) {
  auto* mailbox = static_cast<unsigned*>(malloc_pinned(8, {.mapped = true}));
  mailbox[0] = mailbox[1] = 0;
  {
    Stream stream;
    launch(stream, EMULATOR_KERNEL(answer), {.grid = 1, .block = 1}, static_cast<unsigned*>(device_address(mailbox)));
    std::atomic_ref<unsigned>(mailbox[0]).store(21, std::memory_order_release);
    while (std::atomic_ref<unsigned>(mailbox[1]).load(std::memory_order_acquire) == 0) std::this_thread::yield();
    stream.synchronize();
  }
  EXPECT_EQ(mailbox[1], 42u);
  free_pinned(mailbox);
}

TEST_F(GridTest, SpinTimeOutIsNamed) {
  configure("timeout=0.05");
  DeviceArray<unsigned> mailbox(std::vector<unsigned>{0, 0});
  Stream stream;
  launch(stream, EMULATOR_KERNEL(answer), {.grid = 1, .block = 1}, mailbox.get());
  try {
    stream.synchronize();
    FAIL() << "no time-out";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_mentions(error.what(), {"answer", "spin_wait", "grid_test.cpp:", "0.05 s"});
  }
}

// Does not call spin_wait, so its fiber never yields.
__global__ void wait_without_yielding(const unsigned* flag, int* out) {
  if (threadIdx.x == 1) {
    while (load_acquire(flag) == 0) {
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__global__ void wait_and_yield(const unsigned* flag, int* out) {
  if (threadIdx.x == 1) {
    while (load_acquire(flag) == 0) spin_wait();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__global__ void compute_for(double seconds, int* out) {
  const double begin = device_seconds();
  while (device_seconds() - begin < seconds) {
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(GridTest, AThreadThatNeverHandsOverIsEndedByName) {
  configure("timeout=0.2");
  DeviceArray<unsigned> flag(std::vector<unsigned>{0});
  DeviceArray<int> out(4 * 64);
  Stream stream;
  for (const unsigned blocks : {1u, 4u}) {
    launch(stream, EMULATOR_KERNEL(wait_without_yielding), {.grid = blocks, .block = 64}, flag.get(), out.get());
    try {
      stream.synchronize();
      FAIL() << "no time-out";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
      expect_mentions(error.what(), {"wait_without_yielding", "thread (1,0,0)", "0.2 s", "spin_wait()"});
    }
  }
  launch(stream, EMULATOR_KERNEL(compute_for), {.grid = 2, .block = 8}, 0.01, out.get());
  EXPECT_NO_THROW(stream.synchronize());
}
#else
TEST_F(GridTest, AThreadThatNeverHandsOverEndsTheProcessByName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  configure("timeout=0.2");
  DeviceArray<unsigned> flag(std::vector<unsigned>{0});
  DeviceArray<int> out(64);
  const auto run = [&] {
    Stream stream;
    launch(stream, EMULATOR_KERNEL(wait_without_yielding), {.grid = 1, .block = 64}, flag.get(), out.get());
    stream.synchronize();
  };
  EXPECT_DEATH(run(), "wait_without_yielding.*block .0,0,0..*spin_wait");
}
#endif

TEST_F(GridTest, AThreadThatComputesForLongIsLeftAlone) {
  configure("timeout=20");
  auto* flag = static_cast<unsigned*>(malloc_pinned(sizeof(unsigned), {.mapped = true}));
  *flag = 0;
  DeviceArray<int> out(64), other_out(1);
  Stream stream, other;
  launch(stream, EMULATOR_KERNEL(wait_and_yield), {.grid = 1, .block = 64}, flag, out.get());
  launch(other, EMULATOR_KERNEL(compute_for), {.grid = 1, .block = 1}, 0.3, other_out.get());
  EXPECT_NO_THROW(other.synchronize());
  std::atomic_ref<unsigned>(*flag).store(1, std::memory_order_release);
  EXPECT_NO_THROW(stream.synchronize());
  free_pinned(flag);
}

__global__ void meet_for(double seconds, int* out) {
  __shared__ double begin;
  if (threadIdx.x == 0) begin = device_seconds();
  __syncthreads();
  while (__syncthreads_count(device_seconds() - begin < seconds) != 0) {
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

TEST_F(GridTest, WorkEndsAtItsDeadline) {
  DeviceArray<int> out(16);
  Stream stream;
  const auto work = [&](double seconds) {
    launch(stream, EMULATOR_KERNEL(meet_for), {.grid = 2, .block = 8}, seconds, out.get());
    stream.synchronize();
  };
  set_work_deadline(30);
  EXPECT_NO_THROW(work(0.05));
  set_work_deadline(0.1);
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of([&] { work(30); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  expect_mentions(error, {"meet_for", "device work exceeded its deadline"});
  EXPECT_NE(error_of([&] { work(0); }), "") << "work that starts after the deadline";
  set_work_deadline(std::numeric_limits<double>::infinity());
  EXPECT_NO_THROW(work(0));
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(GridTest, WorkThatNeverHandsOverEndsAtItsDeadlineToo) {
  DeviceArray<int> out(32);
  Stream stream;
  set_work_deadline(0.1);
  launch(stream, EMULATOR_KERNEL(compute_for), {.grid = 4, .block = 8}, 30.0, out.get());
  expect_mentions(error_of([&] { stream.synchronize(); }), {"compute_for", "device work exceeded its deadline"});
}
#endif

// --- lockstep --------------------------------------------------------------------------------------

// Every lane takes the lock. On hardware with lockstep lanes, the lane with the lock waits for the other lanes, which
// wait for the lock.
__global__ void lock_per_lane(int* lock, int* count) {
  spin_until([&] { return atomicCAS(lock, 0, 1) == 0; });
  __threadfence();
  *count += 1;
  __threadfence();
  atomicExch(lock, 0);
}

__global__ void lock_per_warp(int* lock, int* count) {
  if (lane() == 0) {
    spin_until([&] { return atomicCAS(lock, 0, 1) == 0; });
    __threadfence();
    *count += warp_size();
    __threadfence();
    atomicExch(lock, 0);
  }
  sync_warp(full_warp());
}

TEST_F(GridTest, LockThatDeadlocksInLockstepIsCaught) {
  for (const char* mode : {"lockstep=0", "lockstep=1,timeout=0.1"}) {
    configure(mode);
    const bool lockstep = configuration().lockstep;
    DeviceArray<int> lock(std::vector<int>{0}), count(std::vector<int>{0});
    Stream stream;
    launch(stream, EMULATOR_KERNEL(lock_per_warp), {.grid = 2, .block = 128}, lock.get(), count.get());
    stream.synchronize();
    EXPECT_EQ(count.host()[0], 256) << mode;
    launch(stream, EMULATOR_KERNEL(lock_per_lane), {.grid = 1, .block = 64}, lock.get(), count.get());
    const std::string error = error_of([&] { stream.synchronize(); });
    if (lockstep) {
      expect_mentions(error, {"lock_per_lane", "spin_until", "lockstep", "grid_test.cpp:"});
    } else {
      EXPECT_EQ(error, "");
      EXPECT_EQ(count.host()[0], 320);
    }
  }
}

// Lanes that wait for something outside their warp continue together.
__global__ void lanes_wait_together(unsigned* flag, int* out) {
  if (blockIdx.x == 1) {
    if (threadIdx.x == 0) store_release(flag, 1u);
    return;
  }
  spin_until([&] { return load_acquire(flag) == 1; });
  out[threadIdx.x] = 1;
}

TEST_F(GridTest, LockstepLetsHonestWaitsThrough) {
  configure("lockstep=1,warp=64");
  DeviceArray<unsigned> flag(std::vector<unsigned>{0});
  DeviceArray<int> out(std::vector<int>(128, 0));
  Stream stream;
  launch(stream, EMULATOR_KERNEL(lanes_wait_together), {.grid = 2, .block = 128}, flag.get(), out.get());
  stream.synchronize();
  EXPECT_EQ(out.host(), std::vector<int>(128, 1));
}

// --- impossible launches ---------------------------------------------------------------------------

__global__ void nothing() {}

TEST_F(GridTest, ImpossibleShapesAreRefused) {
  Stream stream;
  for (const LaunchShape& shape :
       {LaunchShape{.grid = 1, .block = 1025}, LaunchShape{.grid = 1, .block = 0}, LaunchShape{.grid = 0, .block = 1},
        LaunchShape{.grid = 1, .block = 32, .shared_bytes = 300 << 10}, LaunchShape{.grid = {1, 70000}, .block = 1}}) {
    expect_mentions(error_of([&] { launch(stream, EMULATOR_KERNEL(nothing), shape); }), {"launch", "nothing"});
  }
  configure("cooperative=0");
  try {
    launch(stream, EMULATOR_KERNEL(nothing), {.grid = 1, .block = 1, .cooperative = true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

}  // namespace
}  // namespace emulator
