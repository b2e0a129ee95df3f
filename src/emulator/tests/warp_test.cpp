// Warp operations with 32 and 64 lanes.

#include "fixture.hpp"

namespace emulator {
namespace {

class WarpTest : public EmulatorTest {
 protected:
  /// Runs `kernel(out)` with one block, in both warp sizes and several orders; `expected(i, warp)` is the value of
  /// out[i].
  template <class T, class Expected>
  void check(Kernel<T*> kernel, unsigned threads, Expected expected) {
    for (const int warp : {32, 64}) {
      for (const char* order : {"natural", "reverse", "seed:5"}) {
        configure("warp=" + std::to_string(warp) + ",order=" + order);
        DeviceArray<T> out(threads);
        Stream stream;
        launch(stream, kernel, {.grid = 1, .block = threads}, out.get());
        stream.synchronize();
        const std::vector<T> got = out.host();
        for (unsigned i = 0; i < threads; ++i) {
          ASSERT_EQ(got[i], static_cast<T>(expected(static_cast<int>(i), warp)))
              << "thread " << i << " warp " << warp << " order " << order;
        }
      }
    }
  }
};

__global__ void identity(int* out) {
  out[threadIdx.x] = warp_in_block() * 10000 + lane() * 100 + warp_size();
}
TEST_F(WarpTest, LanesAndWarps) {
  check(EMULATOR_KERNEL(identity), 128, [](int i, int warp) { return i / warp * 10000 + i % warp * 100 + warp; });
}

__global__ void broadcast(double* out) {
  out[threadIdx.x] = shuffle(full_warp(), threadIdx.x * 1.5, 7);
}
TEST_F(WarpTest, Shuffle) {
  check(EMULATOR_KERNEL(broadcast), 128, [](int i, int warp) {
    const int lane_7 = i / warp * warp + 7;
    return lane_7 * 1.5;
  });
}

__global__ void rotate(float4* out) {
  const float t = static_cast<float>(threadIdx.x);
  const float4 mine = make_float4(t, t + 0.25f, t + 0.5f, t + 0.75f);
  out[threadIdx.x] = shuffle(full_warp(), mine, (lane() + 1) % warp_size());
}
TEST_F(WarpTest, ShuffleOfSixteenBytes) {
  configure("warp=64,order=reverse");
  DeviceArray<float4> out(64);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(rotate), {.grid = 1, .block = 64}, out.get());
  stream.synchronize();
  EXPECT_EQ(out.host()[3].w, 4.75f);
  EXPECT_EQ(out.host()[63].y, 0.25f);
}

__global__ void up(int* out) {
  out[threadIdx.x] = shuffle_up(full_warp(), static_cast<int>(threadIdx.x), 3);
}
TEST_F(WarpTest, ShuffleUp) {
  check(EMULATOR_KERNEL(up), 128, [](int i, int warp) { return i % warp < 3 ? i : i - 3; });
}

__global__ void down(int* out) {
  out[threadIdx.x] = shuffle_down(full_warp(), static_cast<int>(threadIdx.x), 5);
}
TEST_F(WarpTest, ShuffleDown) {
  check(EMULATOR_KERNEL(down), 128, [](int i, int warp) { return i % warp >= warp - 5 ? i : i + 5; });
}

__global__ void butterfly(unsigned long long* out) {
  unsigned long long sum = threadIdx.x;
  for (int bits = warp_size() / 2; bits > 0; bits /= 2) sum += shuffle_xor(full_warp(), sum, bits);
  out[threadIdx.x] = sum;
}
TEST_F(WarpTest, ShuffleXorReduces) {
  check(EMULATOR_KERNEL(butterfly), 128, [](int i, int warp) {
    const int first = i / warp * warp;
    return warp * first + warp * (warp - 1) / 2;
  });
}

__global__ void even_lanes(LaneMask* out) {
  out[threadIdx.x] = ballot(full_warp(), lane() % 2 == 0);
}
TEST_F(WarpTest, Ballot) {
  check(EMULATOR_KERNEL(even_lanes), 64,
        [](int, int warp) { return warp == 64 ? 0x5555555555555555ULL : 0x55555555ULL; });
}

__global__ void any_all(int* out) {
  out[threadIdx.x] = any(full_warp(), lane() == 31) * 1000 + any(full_warp(), lane() > 63) * 100 +
                     all(full_warp(), lane() < 32) * 10 + all(full_warp(), lane() >= 0);
}
TEST_F(WarpTest, AnyAndAll) {
  check(EMULATOR_KERNEL(any_all), 64, [](int, int warp) { return warp == 64 ? 1001 : 1011; });
}

__global__ void same_third(LaneMask* out) {
  out[threadIdx.x] = match_any(full_warp(), lane() % 3) + (match_all(full_warp(), 1.5f) ? 0 : 1000) +
                     (match_all(full_warp(), lane()) ? 2000 : 0);
}
TEST_F(WarpTest, Match) {
  check(EMULATOR_KERNEL(same_third), 64, [](int i, int warp) {
    LaneMask mask = 0;
    for (int j = 0; j < warp; ++j) mask |= j % 3 == i % warp % 3 ? LaneMask{1} << j : 0;
    return mask;
  });
}

// Half-warps diverge, each with its own mask; the mask of a single lane contains only that lane.
__global__ void halves(int* out) {
  const LaneMask low = 0xffff, own = lane() < 16 ? low : full_warp() & ~low;
  int v;
  if (lane() < 16) {
    v = shuffle(own, lane(), 3);
    sync_warp(own);
  } else {
    v = shuffle(own, lane(), 17);
  }
  out[threadIdx.x] = v + static_cast<int>(ballot(LaneMask{1} << lane(), true) >> lane()) * 100;
}
TEST_F(WarpTest, DisjointMasks) {
  check(EMULATOR_KERNEL(halves), 128, [](int i, int warp) { return 100 + (i % warp < 16 ? 3 : 17); });
}

// The last warp of a block need not be full.
__global__ void partial(LaneMask* out) {
  out[threadIdx.x] = ballot(full_warp(), true);
}
TEST_F(WarpTest, LanesThatNeverWereDoNotCount) {
  check(EMULATOR_KERNEL(partial), 72, [](int i, int warp) {
    if (i >= 64) return LaneMask{0xff};
    return warp == 64 ? ~LaneMask{0} : LaneMask{0xffffffff};
  });
}

__global__ void exchange_in_shared(int* out) {
  __shared__ int s[128];
  for (int round = 0; round < 4; ++round) {
    s[threadIdx.x] = static_cast<int>(threadIdx.x) + round;
    sync_warp(full_warp());
    out[threadIdx.x] = s[threadIdx.x ^ 1] - round;
    sync_warp(full_warp());
  }
}
TEST_F(WarpTest, SyncWarpOrdersSharedMemory) {
  check(EMULATOR_KERNEL(exchange_in_shared), 128, [](int i, int) { return i ^ 1; });
}

// Undefined on hardware: the source lane does not participate.
__global__ void from_outside(float* out) {
  out[threadIdx.x] = lane() < 4 ? shuffle(0xf, 1.0f, 9) : 0.0f;
}
TEST_F(WarpTest, ShuffleFromOutsideTheMaskGivesPoison) {
  DeviceArray<float> out(32);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(from_outside), {.grid = 1, .block = 32}, out.get());
  stream.synchronize();
  EXPECT_TRUE(std::isnan(out.host()[0]));
  EXPECT_EQ(out.host()[4], 0.0f);
}

// --- faulty kernels --------------------------------------------------------------------------------

// Correct for 32 lanes; with 64 lanes, the values of lanes 32 and above are never added to the sum of lane 0.
__global__ void sums_32_lanes(int* sum) {
  int v = 1;
  for (int delta = 16; delta > 0; delta /= 2) v += shuffle_down(full_warp(), v, delta);
  if (threadIdx.x % 32 == 0 && lane() == 0) atomicAdd(sum, v);
}

TEST_F(WarpTest, KernelThatAssumes32LanesIsWrongWith64) {
  for (const auto& [warp, expected] : {std::pair{"warp=32", 128}, std::pair{"warp=64", 64}}) {
    configure(warp);
    DeviceArray<int> sum(std::vector<int>{0});
    Stream stream;
    launch(stream, EMULATOR_KERNEL(sums_32_lanes), {.grid = 1, .block = 128}, sum.get());
    stream.synchronize();
    EXPECT_EQ(sum.host()[0], expected) << warp;
  }
}

__global__ void lane_missing(int* out) {
  if (lane() != 5) out[threadIdx.x] = shuffle(full_warp(), 1, 0);
}
TEST_F(WarpTest, ShuffleWithALaneThatReturnedIsNamed) {
  for (const char* order : {"order=natural", "order=reverse"}) {
    configure(order);
    DeviceArray<int> out(32);
    Stream stream;
    launch(stream, EMULATOR_KERNEL(lane_missing), {.grid = 1, .block = 32}, out.get());
    expect_mentions(error_of([&] { stream.synchronize(); }), {"lane_missing", "lane 5", "returned", "warp_test.cpp:"});
  }
}

__global__ void lane_elsewhere(int* out) {
  if (lane() == 5) __syncthreads();
  out[threadIdx.x] = shuffle(full_warp(), 1, 0);
}
TEST_F(WarpTest, ShuffleWithALaneThatWaitsElsewhereIsNamed) {
  DeviceArray<int> out(32);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(lane_elsewhere), {.grid = 1, .block = 32}, out.get());
  expect_mentions(error_of([&] { stream.synchronize(); }), {"lane_elsewhere", "shuffle", "__syncthreads", "(5,0,0)"});
}

__global__ void different_operations(LaneMask* out) {
  if (lane() == 0) {
    out[0] = ballot(full_warp(), true);
  } else {
    out[threadIdx.x] = shuffle(full_warp(), LaneMask{1}, 0);
  }
}
TEST_F(WarpTest, DifferentOperationsOfOneMaskAreNamed) {
  DeviceArray<LaneMask> out(32);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(different_operations), {.grid = 1, .block = 32}, out.get());
  expect_mentions(error_of([&] { stream.synchronize(); }), {"different_operations", "ballot", "shuffle"});
}

__global__ void different_masks(int* out) {
  out[threadIdx.x] = shuffle(lane() == 3 ? LaneMask{0xff} : full_warp(), 1, 0);
}
TEST_F(WarpTest, DifferentMasksAreNamed) {
  DeviceArray<int> out(32);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(different_masks), {.grid = 1, .block = 32}, out.get());
  expect_mentions(error_of([&] { stream.synchronize(); }), {"different_masks", "mask 0xff", "mask 0xffffffff"});
}

__global__ void not_in_mask(int* out) {
  out[threadIdx.x] = shuffle(0x7, 1, 0);
}
TEST_F(WarpTest, LaneOutsideItsMaskIsNamed) {
  DeviceArray<int> out(32);
  Stream stream;
  launch(stream, EMULATOR_KERNEL(not_in_mask), {.grid = 1, .block = 32}, out.get());
  expect_mentions(error_of([&] { stream.synchronize(); }), {"not_in_mask", "(3,0,0)", "not in its own mask"});
}

}  // namespace
}  // namespace emulator
