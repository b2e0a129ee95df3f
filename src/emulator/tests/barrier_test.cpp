// __syncthreads: required behaviour, and errors in kernels that use it.

#include "fixture.hpp"

namespace emulator {
namespace {

using BarrierTest = EmulatorTest;

constexpr int threads = 256;

// --- correct kernels -------------------------------------------------------------------------------

__global__ void reverse_block(int* values) {
  __shared__ int s[threads];
  s[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}

TEST_F(BarrierTest, OrdersSharedMemoryInEveryOrder) {
  for (const char* order : {"order=natural", "order=reverse", "order=seed:1", "order=seed:2"}) {
    configure(order);
    std::vector<int> values(64 * threads);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
    DeviceArray<int> device(values);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(reverse_block), {.grid = 64, .block = threads}, device.get());
    stream.synchronize();
    const std::vector<int> got = device.host();
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(got[i], static_cast<int>(i / threads * threads + threads - 1 - i % threads)) << order;
    }
  }
}

// Threads that have returned are not waited for.
__global__ void some_return(int* sum) {
  __shared__ int s[threads];
  if (threadIdx.x % 3 == 0) return;
  s[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x != 1) return;
  int total = 0;
  for (int i = 0; i < threads; ++i) total += i % 3 == 0 ? 0 : s[i];
  *sum = total;
}

TEST_F(BarrierTest, ReturnedThreadsDoNotCount) {
  for (const char* order : {"order=natural", "order=reverse", "order=seed:3"}) {
    configure(order);
    DeviceArray<int> sum(1);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(some_return), {.grid = 1, .block = threads}, sum.get());
    stream.synchronize();
    EXPECT_EQ(sum.host()[0], threads - (threads + 2) / 3);
  }
}

__global__ void votes(int* out) {
  const int count = __syncthreads_count(threadIdx.x < 10);
  const int some = __syncthreads_or(threadIdx.x == 70);
  const int none = __syncthreads_or(threadIdx.x > 1000);
  const int every = __syncthreads_and(threadIdx.x < 100);
  const int not_every = __syncthreads_and(threadIdx.x != 5);
  const int i = static_cast<int>(threadIdx.x);
  out[i] = count * 10000 + some * 1000 + none * 100 + every * 10 + not_every;
}

TEST_F(BarrierTest, CountsPredicates) {
  for (const char* order : {"order=natural", "order=reverse", "order=seed:3"}) {
    configure(order);
    DeviceArray<int> out(100);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(votes), {.grid = 1, .block = 100}, out.get());
    stream.synchronize();
    for (int v : out.host()) ASSERT_EQ(v, 101010);
  }
}

__global__ void index_of(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

TEST_F(BarrierTest, EveryThreadOfEveryBlockRunsOnce) {
  for (const char* order : {"order=natural", "order=reverse", "order=seed:1", "order=seed:12345"}) {
    configure(order);
    const LaunchShape shape{.grid = {3, 4, 5}, .block = {6, 7, 2}};
    const std::size_t n = shape.grid.size() * shape.block.size();
    DeviceArray<int> out(std::vector<int>(n, 0));
    Stream stream;
    launch(stream, EMULATOR_KERNEL(index_of), shape, out.get());
    stream.synchronize();
    EXPECT_EQ(out.host(), std::vector<int>(n, 1)) << order;
  }
}

// --- faulty kernels --------------------------------------------------------------------------------

#if !defined(__SANITIZE_THREAD__)  // TSan reports this race itself; see sanitizer_test.cpp
__global__ void barrier_missing(int* values) {
  __shared__ int s[threads];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  // __syncthreads() is missing: thread t reads what thread t-1 writes
  values[threadIdx.x] = threadIdx.x == 0 ? 0 : s[threadIdx.x - 1];
}

int wrong_values_without_barrier(std::string_view order) {
  configure(parse(order));
  DeviceArray<int> values(threads);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(barrier_missing), {.grid = 1, .block = threads}, values.get());
  stream.synchronize();
  const std::vector<int> got = values.host();
  int wrong = 0;
  for (int i = 1; i < threads; ++i) wrong += got[static_cast<std::size_t>(i)] != i - 1;
  return wrong;
}

TEST_F(BarrierTest, MissingBarrierHidesInNaturalOrderAndShowsInOthers) {
  // On a fresh OS thread, s would be all zeros; on a thread that has already run the kernel, s contains the right
  // values. Each order is therefore tested in a separate process, in which s is initially 0.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(wrong_values_without_barrier("order=natural,workers=1") == 0 ? 0 : 1),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(wrong_values_without_barrier("order=reverse,workers=1") > 200 ? 0 : 1),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(wrong_values_without_barrier("order=seed:1,workers=1") > 50 ? 0 : 1),
              testing::ExitedWithCode(0), "");
}
#endif

__global__ void different_barriers() {
  if (threadIdx.x < 5) {  // NOLINT(bugprone-branch-clone): two different barriers are intended
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_F(BarrierTest, WrongBarrierIsNamed) {
  Stream stream;
  launch(stream, EMULATOR_KERNEL(different_barriers), {.grid = 1, .block = 8});
  const std::string error = error_of([&] { stream.synchronize(); });
  expect_mentions(error, {"stream_synchronize", "different_barriers", "different barriers", "thread (5,0,0)",
                          "thread (0,0,0)", "barrier_test.cpp:", "block (0,0,0)"});
}

__global__ void barrier_in_branch() {
  if (threadIdx.x < 5) __syncthreads();
  shuffle(full_warp(), 1, 0);
}

TEST_F(BarrierTest, BarrierInDivergentBranchIsNamed) {
  Stream stream;
  launch(stream, EMULATOR_KERNEL(barrier_in_branch), {.grid = 1, .block = 32});
  const std::string error = error_of([&] { stream.synchronize(); });
  expect_mentions(error, {"barrier_in_branch", "deadlock", "thread (0,0,0) at __syncthreads in barrier_test.cpp:",
                          "thread (5,0,0) at shuffle in barrier_test.cpp:"});
}

__global__ void increment(int* value) {
  atomicAdd(value, 1);
}

// After a fault, the stream works again: the fault is reported once, and work queued behind it did not run.
TEST_F(BarrierTest, StreamWorksAgainAfterAFault) {
  DeviceArray<int> value(std::vector<int>{0});
  Stream stream;
  launch(stream, EMULATOR_KERNEL(different_barriers), {.grid = 100, .block = 64});
  launch(stream, EMULATOR_KERNEL(increment), {.grid = 1, .block = 1}, value.get());
  EXPECT_THROW(stream.synchronize(), Error);
  EXPECT_EQ(value.host()[0], 0);
  for (int i = 0; i < 3; ++i) {
    launch(stream, EMULATOR_KERNEL(increment), {.grid = 1, .block = 64}, value.get());
    EXPECT_NO_THROW(stream.synchronize());
  }
  EXPECT_EQ(value.host()[0], 3 * 64);
}

__global__ void throws() {
  throw 1;
}
__global__ void traps() {
  __trap();
}

TEST_F(BarrierTest, ExceptionsAndTrapsAreFaults) {
  Stream stream;
  launch(stream, EMULATOR_KERNEL(throws), {.grid = 1, .block = 2});
  expect_mentions(error_of([&] { stream.synchronize(); }), {"throws", "exception"});
  launch(stream, EMULATOR_KERNEL(traps), {.grid = 1, .block = 2});
  expect_mentions(error_of([&] { stream.synchronize(); }), {"traps", "__trap", "barrier_test.cpp:"});
}

__global__ void overflow_stack(int* out, int depth) {
  volatile int frame[256];
  frame[0] = depth;
  if (depth < 1000) overflow_stack(out, depth + 1);
  *out = frame[0];
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // both sanitizers manage stacks differently
TEST_F(BarrierTest, StackOverflowIsAFault) {
  DeviceArray<int> out(1);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(overflow_stack), {.grid = 1, .block = 1}, out.get(), 0);
  expect_mentions(error_of([&] { stream.synchronize(); }), {"overflow_stack", "stack"});
}
#endif

}  // namespace
}  // namespace emulator
