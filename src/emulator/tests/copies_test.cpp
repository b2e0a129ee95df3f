// Asynchronous copies inside a kernel are performed at the matching wait, not before.

#include <cmath>

#include "fixture.hpp"

namespace emulator {
namespace {

using CopiesTest = EmulatorTest;

constexpr int tile = 64;

/// Returns the index that element i of a row of tiles has after each tile is reversed.
int mirrored(int i) {
  const int tile_begin = i / tile * tile;
  return tile_begin + tile - 1 - i % tile;
}

std::vector<float> ramp(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return values;
}

// Keeps two tiles in flight: while one is used, the next is being copied.
__global__ void pipelined(const float* in, float* out, int tiles) {
  float* s = dynamic_shared<float>();
  const int t = static_cast<int>(threadIdx.x);
  async_copy<4>(&s[t], &in[t]);
  async_commit();
  for (int i = 0; i < tiles; ++i) {
    if (i + 1 < tiles) async_copy<4>(&s[(i + 1) % 2 * tile + t], &in[(i + 1) * tile + t]);
    async_commit();
    async_wait<1>();
    __syncthreads();
    out[i * tile + t] = s[i % 2 * tile + (tile - 1 - t)];
    __syncthreads();
  }
}

TEST_F(CopiesTest, PipelineGivesEachTile) {
  for (const char* order : {"order=natural", "order=reverse", "order=seed:9"}) {
    configure(order);
    DeviceArray<float> in(ramp(4 * tile)), out(4 * tile);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(pipelined), {.grid = 1, .block = tile, .shared_bytes = 2 * tile * sizeof(float)},
           in.get(), out.get(), 4);
    stream.synchronize();
    const auto got = out.host();
    for (int i = 0; i < 4 * tile; ++i) {
      ASSERT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>(mirrored(i)));
    }
  }
}

__global__ void wait_forgotten(const float4* in, float4* out) {
  float4* s = dynamic_shared<float4>();
  async_copy<16>(&s[threadIdx.x], &in[threadIdx.x]);
  async_commit();
  out[threadIdx.x] = s[threadIdx.x];
}

__global__ void commit_forgotten(const float4* in, float4* out) {
  float4* s = dynamic_shared<float4>();
  async_copy<16>(&s[threadIdx.x], &in[threadIdx.x]);
  async_wait<0>();
  out[threadIdx.x] = s[threadIdx.x];
}

__global__ void waits_for_too_little(const float4* in, float4* out) {
  float4* s = dynamic_shared<float4>();
  async_copy<16>(&s[threadIdx.x], &in[threadIdx.x]);
  async_commit();
  async_wait<1>();
  out[threadIdx.x] = s[threadIdx.x];
}

TEST_F(CopiesTest, ForgottenWaitGivesPoison) {
  const std::vector<float4> values(8, make_float4(1, 2, 3, 4));
  DeviceArray<float4> in(values), out(8);
  Stream stream;
  const LaunchShape shape{.grid = 1, .block = 8, .shared_bytes = 128};
  for (const auto& kernel :
       {EMULATOR_KERNEL(wait_forgotten), EMULATOR_KERNEL(commit_forgotten), EMULATOR_KERNEL(waits_for_too_little)}) {
    launch(stream, kernel, shape, in.get(), out.get());
    stream.synchronize();
    EXPECT_TRUE(std::isnan(out.host()[7].w)) << kernel.name;
  }
}

__global__ void misaligned(const char* in) {
  char* s = dynamic_shared<char>();
  async_copy<16>(s, in + 4);
}

TEST_F(CopiesTest, MisalignedCopyIsNamed) {
  DeviceArray<char> in(64);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(misaligned), {.grid = 1, .block = 1, .shared_bytes = 64}, in.get());
  expect_mentions(error_of([&] { stream.synchronize(); }), {"misaligned", "async_copy", "source", "copies_test.cpp:"});
}

// --- bulk ------------------------------------------------------------------------------------------

__global__ void bulk(const float* in, float* out, int tiles) {
  __shared__ BulkBarrier arrived[2];
  float* s = dynamic_shared<float>();
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) {
    arrived[0].init(1);
    arrived[1].init(1);
  }
  __syncthreads();
  const auto fetch = [&](int i) {
    arrived[i % 2].expect(tile * sizeof(float));
    bulk_copy(&s[i % 2 * tile], &in[i * tile], tile * sizeof(float), arrived[i % 2]);
  };
  if (t == 0) fetch(0);
  for (int i = 0; i < tiles; ++i) {
    if (t == 0 && i + 1 < tiles) fetch(i + 1);
    arrived[i % 2].wait(i / 2 % 2);
    out[(static_cast<int>(blockIdx.x) * tiles + i) * tile + t] = s[i % 2 * tile + (tile - 1 - t)];
    __syncthreads();
  }
}

TEST_F(CopiesTest, BulkPipelineGivesEachTile) {
  for (const char* order : {"order=natural", "order=reverse", "order=seed:9"}) {
    configure(order);
    DeviceArray<float> in(ramp(7 * tile)), out(3 * 7 * tile);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(bulk), {.grid = 3, .block = tile, .shared_bytes = 2 * tile * sizeof(float)},
           in.get(), out.get(), 7);
    stream.synchronize();
    const auto got = out.host();
    for (int i = 0; i < 3 * 7 * tile; ++i) {
      const int within = i % (7 * tile);  // every block copies the same values
      ASSERT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>(mirrored(within))) << order;
    }
  }
}

__global__ void bulk_wait_forgotten(const float* in, float* out) {
  __shared__ BulkBarrier arrived;
  float* s = dynamic_shared<float>();
  if (threadIdx.x == 0) {
    arrived.init(1);
    arrived.expect(tile * sizeof(float));
    bulk_copy(s, in, tile * sizeof(float), arrived);
  }
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}

TEST_F(CopiesTest, ForgottenBulkWaitGivesPoison) {
  DeviceArray<float> in(ramp(tile)), out(tile);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(bulk_wait_forgotten), {.grid = 1, .block = tile, .shared_bytes = tile * sizeof(float)},
         in.get(), out.get());
  stream.synchronize();
  EXPECT_TRUE(std::isnan(out.host()[5]));
}

__global__ void bulk_expects_too_much(const float* in, float* out) {
  __shared__ BulkBarrier arrived;
  float* s = dynamic_shared<float>();
  if (threadIdx.x == 0) {
    arrived.init(1);
    arrived.expect(2 * tile * sizeof(float));
    bulk_copy(s, in, tile * sizeof(float), arrived);
  }
  __syncthreads();
  arrived.wait(0);
  out[threadIdx.x] = s[threadIdx.x];
}

TEST_F(CopiesTest, BulkWaitThatCannotEndIsNamed) {
  DeviceArray<float> in(ramp(tile)), out(tile);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(bulk_expects_too_much),
         {.grid = 1, .block = tile, .shared_bytes = tile * sizeof(float)}, in.get(), out.get());
  expect_mentions(error_of([&] { stream.synchronize(); }),
                  {"bulk_expects_too_much", "BulkBarrier::wait", "256 of 512 expected bytes", "copies_test.cpp:"});
}

__global__ void bulk_without_init(float* out) {
  __shared__ BulkBarrier arrived;
  arrived.wait(0);
  out[threadIdx.x] = 1;
}

TEST_F(CopiesTest, BarrierWithoutInitIsNamed) {
  DeviceArray<float> out(1);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(bulk_without_init), {.grid = 1, .block = 1}, out.get());
  expect_mentions(error_of([&] { stream.synchronize(); }), {"bulk_without_init", "not initialised"});
}

__global__ void bulk_of(const char* in, unsigned offset, unsigned bytes) {
  __shared__ BulkBarrier arrived;
  arrived.init(1);
  bulk_copy(dynamic_shared<char>(), in + offset, bytes, arrived);
}

TEST_F(CopiesTest, BulkAlignmentAndSizeAreChecked) {
  DeviceArray<char> in(256);
  Stream stream;
  const LaunchShape shape{.grid = 1, .block = 1, .shared_bytes = 256};
  launch(stream, EMULATOR_KERNEL(bulk_of), shape, in.get(), 4u, 32u);
  expect_mentions(error_of([&] { stream.synchronize(); }), {"bulk_copy", "source", "16"});
  launch(stream, EMULATOR_KERNEL(bulk_of), shape, in.get(), 16u, 20u);
  expect_mentions(error_of([&] { stream.synchronize(); }), {"bulk_copy", "20 bytes", "multiple of 16"});
}

}  // namespace
}  // namespace emulator
