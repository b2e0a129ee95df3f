// CUDA's own names in the emulator: atomics, bit counts, vector types, fences, clocks.

#include <set>

#include "fixture.hpp"

namespace emulator {
namespace {

using KernelLanguageTest = EmulatorTest;

template <class T>
__global__ void add_all(T* sum) {
  atomicAdd(sum, static_cast<T>(1));
  atomicAdd_system(sum, static_cast<T>(1));
}

template <class T>
T sum_of_two_each() {
  DeviceArray<T> sum(std::vector<T>{0});
  Stream stream;
  launch(stream, EMULATOR_KERNEL(add_all<T>), {.grid = 20, .block = 100}, sum.get());
  stream.synchronize();
  return sum.host()[0];
}

TEST_F(KernelLanguageTest, AtomicAddLosesNothing) {
  EXPECT_EQ(sum_of_two_each<int>(), 4000);
  EXPECT_EQ(sum_of_two_each<unsigned>(), 4000u);
  EXPECT_EQ(sum_of_two_each<unsigned long long>(), 4000u);
  EXPECT_EQ(sum_of_two_each<float>(), 4000.0f);
  EXPECT_EQ(sum_of_two_each<double>(), 4000.0);
}

__global__ void other_atomics(int* i, unsigned* u, unsigned long long* l, float* f) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicMin(&i[0], t - 7);
  atomicMax(&i[1], t);
  atomicSub(&i[2], 1);
  atomicXor(&i[3], t);
  atomicMin(&u[0], static_cast<unsigned>(t) + 3);
  atomicOr(&u[1], 1u << (t % 32));
  atomicAnd(&u[2], ~(1u << (t % 16)));
  atomicInc(&u[3], 9);
  atomicDec(&u[4], 9);
  atomicMax(&l[0], static_cast<unsigned long long>(t) << 40);
  for (unsigned long long seen = load_acquire(&l[1]);;) {
    const unsigned long long before = atomicCAS(&l[1], seen, seen + 2);
    if (before == seen) break;
    seen = before;
  }
  if (atomicExch(&f[0], 1.0f) == 0.0f) atomicAdd_block(&f[1], 1.0f);
}

TEST_F(KernelLanguageTest, OtherAtomics) {
  DeviceArray<int> i(std::vector<int>{100, 0, 0, 0});
  DeviceArray<unsigned> u(std::vector<unsigned>{100, 0, ~0u, 0, 0});
  DeviceArray<unsigned long long> l(std::vector<unsigned long long>{0, 0});
  DeviceArray<float> f(std::vector<float>{0, 0});
  Stream stream;
  launch(stream, EMULATOR_KERNEL(other_atomics), {.grid = 16, .block = 64}, i.get(), u.get(), l.get(), f.get());
  stream.synchronize();
  EXPECT_EQ(i.host(), (std::vector<int>{-7, 1023, -1024, 0}));
  // A counter with ten values takes 1,024 steps: up from 0, and down from 0.
  EXPECT_EQ(u.host(), (std::vector<unsigned>{3, ~0u, 0xffff0000u, 4, 6}));
  EXPECT_EQ(l.host(), (std::vector<unsigned long long>{1023ULL << 40, 2048}));
  EXPECT_EQ(f.host()[1], 1.0f);
}

__global__ void intrinsics(int* out) {
  int i = 0;
  out[i++] = __popc(0xf0f0u);
  out[i++] = __popcll(~0ULL);
  out[i++] = __ffs(8);
  out[i++] = __ffs(0);
  out[i++] = __ffsll(1LL << 40);
  out[i++] = __clz(1);
  out[i++] = __clz(0);
  out[i++] = __clzll(1);
  out[i++] = __clzll(0);
  out[i++] = static_cast<int>(fmaf(2.0f, 3.0f, 4.0f));
  out[i++] = __float_as_int(1.0f);
  out[i++] = static_cast<int>(__int_as_float(0x40000000));
  out[i++] = min(3, 5) + max(3, 5);
  const float4 v = make_float4(1, 2, 3, 4);
  out[i++] = static_cast<int>(v.x + v.y + v.z + v.w);
  const int4 w = load_streaming(reinterpret_cast<const int4*>(out));
  out[i++] = w.x + w.y;
  out[i++] = __ldg(out);
  store_streaming(&out[i++], 77);
}

TEST_F(KernelLanguageTest, Intrinsics) {
  DeviceArray<int> out(20);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(intrinsics), {.grid = 1, .block = 1}, out.get());
  stream.synchronize();
  auto got = out.host();
  got.resize(17);
  EXPECT_EQ(got, (std::vector<int>{8, 64, 4, 0, 41, 31, 32, 63, 64, 10, 0x3f800000, 2, 8, 10, 72, 8, 77}));
  static_assert(alignof(float4) == 16 && alignof(float2) == 8 && alignof(double2) == 16 && sizeof(uint3) == 12);
}

__global__ void clocks(long long* ticks, double* at) {
  ticks[0] = clock64();
  at[0] = device_seconds();
  while (device_seconds() - at[0] < 0.005) __nanosleep(100);
  ticks[1] = clock64();
  at[1] = device_seconds();
}

TEST_F(KernelLanguageTest, ClocksGoOn) {
  DeviceArray<long long> ticks(2);
  DeviceArray<double> at(2);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(clocks), {.grid = 1, .block = 1}, ticks.get(), at.get());
  stream.synchronize();
  EXPECT_GT(ticks.host()[1], ticks.host()[0]);
  EXPECT_GE(at.host()[1] - at.host()[0], 0.005);
}

// The last block to finish sums the results of all other blocks: fence, count, fence, read.
__global__ void last_block_sums(int* partial, unsigned* count, int* sum) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = static_cast<int>(blockIdx.x);
    __threadfence();
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int total = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];
    *sum = total;
  }
}

TEST_F(KernelLanguageTest, LastBlockSeesAllPartialSums) {
  DeviceArray<int> partial(50), sum(1);
  DeviceArray<unsigned> count(std::vector<unsigned>{0});
  Stream stream;
  launch(stream, EMULATOR_KERNEL(last_block_sums), {.grid = 50, .block = 32}, partial.get(), count.get(), sum.get());
  stream.synchronize();
  EXPECT_EQ(sum.host()[0], 50 * 49 / 2);
}

struct Matrix {
  const float* data;
  int columns;
};
__global__ void pick(Matrix matrix, int row, int column, float* out, const double factor) {
  *out = static_cast<float>(matrix.data[row * matrix.columns + column] * factor);
}

TEST_F(KernelLanguageTest, ArgumentsAreConvertedAndCopied) {
  DeviceArray<float> data(std::vector<float>{0, 1, 2, 3, 4, 5}), out(1);
  Stream stream;
  {
    Matrix matrix{data.get(), 3};
    launch(stream, EMULATOR_KERNEL(pick), {.grid = 1, .block = 1}, matrix, 1L, short{2}, out.get(), 2.0f);
    matrix.columns = 1000;
  }
  stream.synchronize();
  EXPECT_EQ(out.host()[0], 10.0f);
}

}  // namespace
}  // namespace emulator
