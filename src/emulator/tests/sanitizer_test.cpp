// Sanitizer reports: a wrong kernel ends its process with a report, and a correct one does not.
// UndefinedBehaviorSanitizer reports a misaligned access, ThreadSanitizer a missing barrier.

#include "fixture.hpp"

#if defined(EMULATOR_UBSAN) || defined(__SANITIZE_THREAD__)

namespace emulator {
namespace {

class SanitizerTest : public EmulatorTest {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    configure("exit_report=0");  // each check ends its process while the test's arrays are still allocated
  }
};

}  // namespace
}  // namespace emulator

#endif

#if defined(EMULATOR_UBSAN)

namespace emulator {
namespace {

using UndefinedBehaviorSanitizerTest = SanitizerTest;

__global__ void copy_vector(const float* in, float* out) {
  *reinterpret_cast<float4*>(out) = *reinterpret_cast<const float4*>(in);
}

void copy_from(const float* in, float* out) {
  {
    Stream stream;
    launch(stream, EMULATOR_KERNEL(copy_vector), {.grid = 1, .block = 1}, in, out);
    stream.synchronize();
  }
  std::exit(0);
}

TEST_F(UndefinedBehaviorSanitizerTest, MisalignedVectorEndsTheProcess) {
  DeviceArray<float> in(std::vector<float>(8, 1.0f)), out(4);
  EXPECT_EXIT(copy_from(in.get() + 1, out.get()), testing::ExitedWithCode(1), "misaligned address");
  EXPECT_EXIT(copy_from(in.get() + 4, out.get()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace emulator

#endif

#if defined(__SANITIZE_THREAD__)

// By default, TSan sleeps for a second at the end of a process. This is turned off, because each check below runs in a
// separate process.
extern "C" const char* __tsan_default_options();
const char* __tsan_default_options() {
  return "atexit_sleep_ms=0";
}

namespace emulator {
namespace {

constexpr int threads = 64;

// Reads the neighbour's value. In natural order, values are correct even if the barrier is missing.
template <bool Barrier>
__global__ void neighbour(int* values) {
  __shared__ int s[threads];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  if constexpr (Barrier) __syncthreads();
  values[threadIdx.x] = threadIdx.x == 0 ? 0 : s[threadIdx.x - 1];
}

// Has no second barrier: the next round overwrites values that a slow thread still reads.
template <bool Barrier>
__global__ void rounds(int* values) {
  __shared__ int s[threads];
  for (int round = 0; round < 3; ++round) {
    s[threadIdx.x] = static_cast<int>(threadIdx.x) + round;
    __syncthreads();
    values[threadIdx.x] = s[(threadIdx.x + 1) % threads];
    if constexpr (Barrier) __syncthreads();
  }
}

template <bool Sync>
__global__ void lanes(int* values) {
  __shared__ int s[threads];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  shuffle(full_warp(), 1, 0);  // a shuffle orders nothing
  if constexpr (Sync) sync_warp(full_warp());
  values[threadIdx.x] = s[threadIdx.x ^ 1];
}

template <bool Barrier>
__global__ void landed(const int* in, int* values) {
  int* s = dynamic_shared<int>();
  async_copy<4>(&s[threadIdx.x], &in[threadIdx.x]);
  async_commit();
  async_wait<0>();
  if constexpr (Barrier) __syncthreads();
  values[threadIdx.x] = s[(threadIdx.x + 1) % threads];
}

template <bool Sync>
__global__ void across_blocks(int* values) {
  values[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if constexpr (Sync) grid_sync();
  const int other = values[(blockIdx.x + 1) % gridDim.x * blockDim.x + threadIdx.x];
  if constexpr (Sync) grid_sync();
  values[blockIdx.x * blockDim.x + threadIdx.x] = other;
}

template <class... P, class... A>
void run_and_exit(Kernel<P...> kernel, const LaunchShape& shape, A... arguments) {
  {
    Stream stream;
    launch(stream, kernel, shape, arguments...);
    stream.synchronize();
  }
  std::exit(0);
}

using ThreadSanitizerTest = SanitizerTest;

/// Exit code 66 means that TSan has reported an error.
#define EXPECT_RACE(...) EXPECT_EXIT(run_and_exit(__VA_ARGS__), testing::ExitedWithCode(66), "data race")
#define EXPECT_NO_RACE(...) EXPECT_EXIT(run_and_exit(__VA_ARGS__), testing::ExitedWithCode(0), "")

TEST_F(ThreadSanitizerTest, MissingBarrierIsReported) {
  DeviceArray<int> values(threads);
  EXPECT_RACE(EMULATOR_KERNEL(neighbour<false>), {.grid = 1, .block = threads}, values.get());
  EXPECT_NO_RACE(EMULATOR_KERNEL(neighbour<true>), {.grid = 1, .block = threads}, values.get());
}

TEST_F(ThreadSanitizerTest, MissingSecondBarrierIsReported) {
  DeviceArray<int> values(threads);
  EXPECT_RACE(EMULATOR_KERNEL(rounds<false>), {.grid = 1, .block = threads}, values.get());
  EXPECT_NO_RACE(EMULATOR_KERNEL(rounds<true>), {.grid = 1, .block = threads}, values.get());
}

TEST_F(ThreadSanitizerTest, MissingSyncWarpIsReported) {
  DeviceArray<int> values(threads);
  EXPECT_RACE(EMULATOR_KERNEL(lanes<false>), {.grid = 1, .block = threads}, values.get());
  EXPECT_NO_RACE(EMULATOR_KERNEL(lanes<true>), {.grid = 1, .block = threads}, values.get());
}

TEST_F(ThreadSanitizerTest, MissingBarrierAfterACopyIsReported) {
  DeviceArray<int> values(threads), in(std::vector<int>(threads, 1));
  const LaunchShape shape{.grid = 1, .block = threads, .shared_bytes = threads * sizeof(int)};
  EXPECT_RACE(EMULATOR_KERNEL(landed<false>), shape, in.get(), values.get());
  EXPECT_NO_RACE(EMULATOR_KERNEL(landed<true>), shape, in.get(), values.get());
}

TEST_F(ThreadSanitizerTest, MissingGridSyncIsReported) {
  DeviceArray<int> values(4 * threads);
  EXPECT_RACE(EMULATOR_KERNEL(across_blocks<false>), {.grid = 4, .block = threads, .cooperative = true}, values.get());
  EXPECT_NO_RACE(EMULATOR_KERNEL(across_blocks<true>), {.grid = 4, .block = threads, .cooperative = true},
                 values.get());
}

}  // namespace
}  // namespace emulator

#endif
