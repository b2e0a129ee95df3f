// Device memory: poison, guards, wrong frees, and access rights.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "fixture.hpp"

namespace emulator {
namespace {

using MemoryTest = EmulatorTest;
class MemoryDeathTest : public EmulatorTest {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

__global__ void copy_elements(const float* in, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i];
}

__global__ void write_at(float* out, long long i) {
  out[i] = 1;
}

TEST_F(MemoryTest, UninitialisedReadGivesNaN) {
  DeviceArray<float> in(100), out(100);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(copy_elements), {.grid = 1, .block = 128}, in.get(), out.get(), 100);
  stream.synchronize();
  for (float v : out.host()) EXPECT_TRUE(std::isnan(v));
}

__global__ void copy_shared(float* out) {
  out[threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
}

TEST_F(MemoryTest, UninitialisedSharedReadGivesNaN) {
  DeviceArray<float> out(32);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(copy_shared), {.grid = 1, .block = 32, .shared_bytes = 128}, out.get());
  stream.synchronize();
  EXPECT_TRUE(std::isnan(out.host()[3]));
  launch(stream, EMULATOR_KERNEL(copy_shared), {.grid = 1, .block = 64, .shared_bytes = 128}, out.get());
  const std::string error = error_of([&] { stream.synchronize(); });
  expect_mentions(error, {"copy_shared", "dynamic shared memory", "thread (32,0,0)"});
}

TEST_F(MemoryTest, UseAfterFreeIsNamed) {
  auto* freed = static_cast<float*>(malloc_device(4096));
  free_device(freed);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, freed, 3LL);
  expect_mentions(error_of([&] { stream.synchronize(); }),
                  {"write_at", "block (0,0,0)", "thread (0,0,0)", "byte 12 of the 4096 bytes", "freed before"});
}

TEST_F(MemoryTest, OutOfBoundsIntoTheGuardIsNamed) {
  DeviceArray<float> out(1024);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, out.get(), 1024LL);
  expect_mentions(error_of([&] { stream.synchronize(); }),
                  {"write_at", "byte 4096 of the 4096 bytes of malloc_device", "out of bounds"});
}

TEST_F(MemoryTest, OutOfBoundsIntoTheSlackIsFoundAtTheFree) {
  auto* out = static_cast<float*>(malloc_device(100));
  Stream stream;
  launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, out, 25LL);
  stream.synchronize();
  expect_mentions(error_of([&] { free_device(out); }), {"free_device", "out of bounds", "byte 100 of the 100 bytes"});
  auto* before = static_cast<float*>(malloc_device(100));
  launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, before, -1LL);
  stream.synchronize();
  expect_mentions(error_of([&] { free_device(before); }), {"free_device", "out of bounds", "byte -4"});
}

__global__ void read_at(const float* in, float* out, long long i) {
  *out = in[i];
}

TEST_F(MemoryTest, ReadsOutsideGiveNaN) {
  DeviceArray<float> in(std::vector<float>(25, 1.0f)), out(1);
  Stream stream;
  const auto read = [&](long long i) {
    launch(stream, EMULATOR_KERNEL(read_at), {.grid = 1, .block = 1}, in.get(), out.get(), i);
    stream.synchronize();
    return out.host()[0];
  };
  EXPECT_EQ(read(0), 1.0f);
  EXPECT_EQ(read(24), 1.0f);
  EXPECT_TRUE(std::isnan(read(25)));
  EXPECT_TRUE(std::isnan(read(-1)));
}

// Writes -1, the value that integer code writes most often; it must differ from the slack.
__global__ void write_minus_one(int* out, int i) {
  out[i] = -1;
}

TEST_F(MemoryTest, MinusOneInTheSlackIsFoundAtTheFree) {
  auto* out = static_cast<int*>(malloc_device(100));
  Stream stream;
  launch(stream, EMULATOR_KERNEL(write_minus_one), {.grid = 1, .block = 1}, out, 25);
  stream.synchronize();
  expect_mentions(error_of([&] { free_device(out); }), {"free_device", "out of bounds", "byte 100 of the 100 bytes"});
}

TEST_F(MemoryTest, TheNearestAllocationIsBlamed) {
  DeviceArray<float> first(1024), second(1024);
  Stream stream;
  const auto write = [&](float* to, long long i) {
    launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, to, i);
    return error_of([&] { stream.synchronize(); });
  };
  const auto serial = [&](const std::string& error) { return error.substr(error.find('#')); };
  const std::string behind_first = write(first.get(), 1024), before_second = write(second.get(), -1);
  expect_mentions(behind_first, {"byte 4096 of the 4096 bytes", "out of bounds"});
  expect_mentions(before_second, {"byte -4 of the 4096 bytes", "out of bounds"});
  EXPECT_NE(serial(behind_first), serial(before_second));
  EXPECT_EQ(serial(write(second.get(), 1024)), serial(before_second));
  EXPECT_EQ(serial(write(first.get(), -1)), serial(behind_first));
  EXPECT_EQ(write(second.get(), 1023), "");
}

TEST_F(MemoryTest, BytesBeforePinnedMemoryAreGuarded) {
  auto* pinned = static_cast<float*>(malloc_pinned(4096, {.mapped = true}));
  Stream stream;
  launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, pinned, -1LL);
  expect_mentions(error_of([&] { stream.synchronize(); }), {"byte -4 of the 4096 bytes of malloc_pinned"});
  launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, pinned, 0LL);
  EXPECT_NO_THROW(stream.synchronize());
  free_pinned(pinned);
}

// fmax ignores a NaN operand, and an integer with the bits of a NaN is negative: both hide a read beyond the end.
__global__ void largest_of(const float* in, const int* integers, int n, float* out, int* out_integer) {
  float most = 0;
  int most_integer = 0;
  for (int i = 0; i < n; ++i) {
    most = fmaxf(most, in[i]);
    most_integer = max(most_integer, integers[i]);
  }
  *out = most;
  *out_integer = most_integer;
}

TEST_F(MemoryTest, LargePoisonShowsWhatAMaximumSwallows) {
  for (const char* poison : {"poison=nan", "poison=large"}) {
    configure(poison);
    const bool large = configuration().poison == Poison::large;
    DeviceArray<float> in(std::vector<float>(25, 3.0f)), out(1);
    DeviceArray<int> integers(std::vector<int>(25, 3)), out_integer(1);
    Stream stream;
    for (const int read : {25, 26}) {
      launch(stream, EMULATOR_KERNEL(largest_of), {.grid = 1, .block = 1}, in.get(), integers.get(), read, out.get(),
             out_integer.get());
      stream.synchronize();
      EXPECT_EQ(out.host()[0] > 1e30f, large && read == 26) << poison << read;
      EXPECT_EQ(out_integer.host()[0] > 1'000'000'000, large && read == 26) << poison << read;
    }
  }
}

TEST_F(MemoryTest, LargePoisonIsFiniteInEveryType) {
  configure("poison=large");
  DeviceArray<double> values(4);
  DeviceArray<float> floats(4);
  EXPECT_GT(values.host()[0], 1e100);
  EXPECT_TRUE(std::isfinite(values.host()[0]));
  EXPECT_GT(floats.host()[3], 1e30f);
  EXPECT_TRUE(std::isfinite(floats.host()[3]));
}

__global__ void write_shared(float* out, int i) {
  auto* s = dynamic_shared<float>();
  if (threadIdx.x == 0) s[i] = 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}

TEST_F(MemoryTest, WritesAroundDynamicSharedMemoryAreFound) {
  DeviceArray<float> out(3);
  Stream stream;
  const auto write = [&](int i) {
    launch(stream, EMULATOR_KERNEL(write_shared), {.grid = 1, .block = 3, .shared_bytes = 12}, out.get(), i);
    return error_of([&] { stream.synchronize(); });
  };
  EXPECT_EQ(write(2), "");
  expect_mentions(write(3), {"write_shared", "block (0,0,0)", "byte 12 of the 12 bytes of dynamic shared memory"});
  expect_mentions(write(-1), {"write_shared", "byte -4 of the 12 bytes of dynamic shared memory"});
  expect_mentions(write(-5000), {"write_shared", "byte -20000 of the 12 bytes of dynamic shared memory"});
  expect_mentions(write(32), {"write_shared", "byte 128 of the 12 bytes of dynamic shared memory"});
  EXPECT_EQ(write(0), "");
}

TEST_F(MemoryTest, WrongFreesAreNamed) {
  auto* device = malloc_device(64);
  auto* pinned = malloc_pinned(64);
  auto* managed = malloc_managed(64);
  int local = 0;
  expect_mentions(error_of([&] { free_pinned(device); }), {"free_pinned", "allocated by malloc_device"});
  expect_mentions(error_of([&] { free_device(pinned); }), {"free_device", "allocated by malloc_pinned"});
  expect_mentions(error_of([&] { free_device(managed); }), {"free_device", "allocated by malloc_managed"});
  expect_mentions(error_of([&] { free_managed(pinned); }), {"free_managed", "allocated by malloc_pinned"});
  expect_mentions(error_of([&] { free_device(static_cast<char*>(device) + 8); }), {"8 bytes inside"});
  expect_mentions(error_of([&] { free_device(&local); }), {"unknown"});
  expect_mentions(error_of([&] { unregister_host(&local); }), {"unregister_host", "unknown"});
  free_device(device);
  free_pinned(pinned);
  free_managed(managed);
  expect_mentions(error_of([&] { free_device(device); }), {"free_device", "double free"});
  expect_mentions(error_of([&] { free_managed(managed); }), {"free_managed", "double free"});
  EXPECT_NO_THROW(free_device(nullptr));
}

TEST_F(MemoryTest, OutOfMemory) {
  configure("memory=16MiB");
  EXPECT_EQ(memory_info().total, std::size_t{16} << 20);
  auto* most = malloc_device(std::size_t{12} << 20);
  EXPECT_EQ(memory_info().free, std::size_t{4} << 20);
  try {
    malloc_device(std::size_t{5} << 20);
    FAIL() << "5 MiB fitted in 4";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    expect_mentions(error.what(), {"malloc_device", "5242880 bytes", "4194304 of 16777216"});
  }
  free_device(most);
  EXPECT_NO_THROW(free_device(malloc_device(std::size_t{16} << 20)));
  for (const auto allocate : {+[] { malloc_pinned(std::size_t{1} << 50); }, +[] { malloc_managed(~std::size_t{0}); }}) {
    try {
      allocate();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    }
  }
}

TEST_F(MemoryTest, ManyAllocationsLeakNoMappings) {
  for (int i = 0; i < 20000; ++i) free_device(malloc_device(100));
  std::vector<void*> held;
  for (int i = 0; i < 3000; ++i) held.push_back(malloc_device(1));
  for (void* pointer : held) free_device(pointer);
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

__global__ void count_all(int** counters, int n, int round) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) *counters[i] = round == 0 ? 1 : *counters[i] + 1;
}

// Uses so many allocations in one kernel that their mappings would exceed a process's limit if all were open at once.
TEST_F(MemoryTest, TensOfThousandsOfAllocationsCanLiveAndBeUsed) {
  constexpr int n = 34'000;
  const std::size_t before = mappings();
  std::vector<int*> held(n);
  for (int*& pointer : held) pointer = static_cast<int*>(malloc_device(sizeof(int)));
  EXPECT_LT(mappings(), before + n / 10);
  DeviceArray<int*> counters(held);
  Stream stream;
  for (int round = 0; round < 2; ++round) {
    launch(stream, EMULATOR_KERNEL(count_all), {.grid = (n + 63) / 64, .block = 64}, counters.get(), n, round);
  }
  stream.synchronize();
  EXPECT_LT(mappings(), before + n / 10) << "allocations that a kernel opened are closed when it ends";
  for (const int i : {0, n / 2, n - 1}) {
    int count = 0;
    copy(&count, held[static_cast<std::size_t>(i)], sizeof count);
    EXPECT_EQ(count, 2);
  }
  for (int* pointer : held) free_device(pointer);
}

TEST_F(MemoryTest, PointerInfo) {
  auto* device = static_cast<char*>(malloc_device(64));
  auto* pinned = static_cast<char*>(malloc_pinned(64));
  auto* mapped = static_cast<char*>(malloc_pinned(64, {.mapped = true}));
  auto* managed = static_cast<char*>(malloc_managed(64));
  std::vector<char> pageable(64);
  EXPECT_EQ(pointer_info(device + 63).kind, PointerKind::device);
  EXPECT_EQ(pointer_info(device).device, 0);
  EXPECT_EQ(pointer_info(device + 64).kind, PointerKind::unregistered);
  EXPECT_EQ(pointer_info(pinned + 10).kind, PointerKind::pinned);
  EXPECT_FALSE(pointer_info(pinned).mapped);
  EXPECT_TRUE(pointer_info(mapped).mapped);
  EXPECT_EQ(pointer_info(managed).kind, PointerKind::managed);
  EXPECT_EQ(pointer_info(pageable.data()).kind, PointerKind::unregistered);
  EXPECT_EQ(device_address(mapped), mapped);
  EXPECT_THROW(device_address(pinned), Error);
  EXPECT_THROW(device_address(device), Error);
  register_host(pageable.data(), pageable.size(), {.mapped = true});
  EXPECT_EQ(pointer_info(pageable.data()).kind, PointerKind::pinned);
  EXPECT_EQ(device_address(pageable.data()), pageable.data());
  EXPECT_THROW(register_host(pageable.data() + 8, 8), Error);
  unregister_host(pageable.data());
  EXPECT_EQ(pointer_info(pageable.data()).kind, PointerKind::unregistered);
  free_device(device);
  free_pinned(pinned);
  free_pinned(mapped);
  free_managed(managed);
}

TEST_F(MemoryTest, LastPrefetch) {
  Stream stream;
  auto* managed = static_cast<char*>(malloc_managed(64 << 10));
  EXPECT_EQ(last_prefetch(managed, 64 << 10), std::nullopt);
  prefetch(managed, 64 << 10, Location::gpu(0), stream);
  stream.synchronize();
  EXPECT_EQ(last_prefetch(managed, 64 << 10), 0);
  prefetch(managed, 32 << 10, Location::host(), stream);
  EXPECT_EQ(last_prefetch(managed, 64 << 10), std::nullopt);
  EXPECT_EQ(last_prefetch(managed, 32 << 10), -1);
  EXPECT_THROW(prefetch(managed, 65 << 10, Location::gpu(0), stream), Error);
  EXPECT_THROW(prefetch(managed, 4096, Location::gpu(1), stream), Error);
  advise(managed, 64 << 10, Location::gpu(0));
  DeviceArray<char> device(64);
  EXPECT_THROW(prefetch(device.get(), 64, Location::gpu(0), stream), Error);
  EXPECT_THROW(advise(device.get(), 64, Location::gpu(0)), Error);
  free_managed(managed);
}

// --- access rights ---------------------------------------------------------------------------------

TEST_F(MemoryTest, KernelArgumentsMustBeMemoryOfTheDevice) {
  Stream stream;
  DeviceArray<float> out(16);
  std::vector<float> pageable(16, 1.0f);
  auto* pinned = static_cast<float*>(malloc_pinned(64));
  auto* managed = static_cast<float*>(malloc_managed(64));
  std::fill_n(managed, 16, 2.0f);
  const LaunchShape shape{.grid = 1, .block = 16};
  const auto run = [&](const float* in) {
    launch(stream, EMULATOR_KERNEL(copy_elements), shape, in, out.get(), 16);
    stream.synchronize();
  };
  expect_mentions(error_of([&] { run(pageable.data()); }), {"copy_elements", "argument 1", "pageable"});
  expect_mentions(error_of([&] { run(pinned); }), {"copy_elements", "argument 1", "not mapped"});
  run(managed);
  EXPECT_EQ(out.host()[15], 2.0f);
  configure("pageable_access=1");
  run(pageable.data());
  EXPECT_EQ(out.host()[15], 1.0f);
  free_pinned(pinned);
  free_managed(managed);
}

TEST_F(MemoryTest, CopiesAreHeldToTheirAllocations) {
  Stream stream;
  DeviceArray<char> device(100);
  std::vector<char> host(200, 1);
  for (const std::string& error : {error_of([&] { copy(device.get(), host.data(), 101); }),
                                   error_of([&] { copy_async(host.data(), device.get() + 1, 100, stream); }),
                                   error_of([&] { fill_async(device.get(), 0, 101, stream); })}) {
    expect_mentions(error, {"run beyond the 100 bytes"});
  }
  EXPECT_NE(error_of([&] { fill_async(host.data(), 0, 10, stream); }), "");
  EXPECT_NE(error_of([&] { copy(device.get(), nullptr, 10); }), "");
  auto* freed = malloc_device(64);
  free_device(freed);
  expect_mentions(error_of([&] { copy(host.data(), freed, 64); }),
                  {"copy", "source", "not in a live device allocation"});
}

TEST_F(MemoryTest, CapabilitiesThatAreOffAreUnsupported) {
  configure("managed=0,memory_pools=0,map_host=0");
  Stream stream;
  for (const auto& call :
       std::vector<std::function<void()>>{[] { malloc_managed(64); }, [&] { malloc_pooled(64, stream); },
                                          [] { malloc_pinned(64, {.mapped = true}); }}) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    }
  }
}

TEST_F(MemoryTest, IntegratedDevicesShareTheirMemory) {
  configure("integrated=1");
  auto* both = static_cast<float*>(malloc_device(64));
  both[0] = 3;
  Stream stream;
  DeviceArray<float> out(1);
  launch(stream, EMULATOR_KERNEL(copy_elements), {.grid = 1, .block = 1}, both, out.get(), 1);
  stream.synchronize();
  EXPECT_EQ(out.get()[0], 3.0f);
  free_device(both);
}

// --- stream-ordered memory -------------------------------------------------------------------------

TEST_F(MemoryTest, PooledMemoryIsUsableFromItsPointOn) {
  Stream stream;
  std::vector<float> host(16, 5.0f), back(16, 0.0f);
  auto* pooled = static_cast<float*>(malloc_pooled(64, stream));
  copy_async(pooled, host.data(), 64, stream);
  copy_async(back.data(), pooled, 64, stream);
  free_pooled(pooled, stream);
  stream.synchronize();
  EXPECT_EQ(back, host);
  expect_mentions(error_of([&] { free_pooled(pooled, stream); }), {"free_pooled", "double free"});
  auto* wrong = malloc_pooled(64, stream);
  expect_mentions(error_of([&] { free_device(wrong); }), {"free_device", "allocated by malloc_pooled"});
  free_pooled(wrong, stream);
}

TEST_F(MemoryTest, PooledMemoryOfAnotherStreamIsNotThereYet) {
  configure("grace=30");
  Stream owner, other;
  auto* pooled = static_cast<float*>(malloc_pooled(64, owner));
  launch(other, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, pooled, 0LL);
  expect_mentions(error_of([&] { other.synchronize(); }), {"write_at", "malloc_pooled", "before its stream"});
  Event allocated;
  allocated.record(owner);
  other.wait(allocated);
  launch(other, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, pooled, 0LL);
  other.synchronize();
  free_pooled(pooled, owner);
  owner.synchronize();
  launch(other, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, pooled, 0LL);
  expect_mentions(error_of([&] { other.synchronize(); }), {"write_at", "freed before"});
}

TEST_F(MemoryTest, PoolRoomIsReusedInStreamOrder) {
  configure("memory=16MiB");
  Stream stream;
  for (int i = 0; i < 8; ++i) {
    auto* pooled = malloc_pooled(std::size_t{12} << 20, stream);
    EXPECT_THROW(malloc_pooled(std::size_t{12} << 20, stream), Error);
    free_pooled(pooled, stream);
  }
  stream.synchronize();
  EXPECT_EQ(memory_info().free, std::size_t{16} << 20);
}

// --- the host --------------------------------------------------------------------------------------

TEST_F(MemoryDeathTest, HostDereferenceOfDeviceMemory) {
  auto* device = static_cast<volatile float*>(malloc_device(4096));
  EXPECT_DEATH(device[2] = 1, "the host dereferenced device memory.*byte 8 of the 4096 bytes of malloc_device");
  EXPECT_DEATH((void)device[1], "the host dereferenced device memory");
  Stream stream;
  stream.synchronize();
  launch(stream, EMULATOR_KERNEL(write_at), {.grid = 1, .block = 1}, const_cast<float*>(device), 0LL);
  stream.synchronize();
  EXPECT_DEATH((void)device[0], "the host dereferenced device memory");
  free_device(const_cast<float*>(device));
}

}  // namespace
}  // namespace emulator
