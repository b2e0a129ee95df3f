// Errors in kernels with CUDA's spellings, each next to a correct version of the kernel.

#include "fixture.hpp"

namespace emulator {
namespace {

class EmulatedSpellingTest : public EmulatorTest {
 protected:
  /// Launches one block and returns the launch's fault, or "".
  static std::string fault_of(Kernel<int*> kernel, const char* machine, std::vector<int>* got = nullptr) {
    configure(machine);
    DeviceArray<int> out(64);
    Stream stream;
    launch(stream, kernel, {.grid = 1, .block = 64}, out.get());
    std::string fault = error_of([&] { stream.synchronize(); });
    if (got != nullptr) *got = out.host();
    return fault;
  }
};

__global__ void sum_of_32(int* out) {
  int sum = 1;
  for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(0xffffffff, sum, bits);
  out[threadIdx.x] = sum;
}
__global__ void sum_of_the_warp(int* out) {
  int sum = 1;
  for (int bits = warpSize / 2; bits > 0; bits /= 2) sum += __shfl_xor_sync(full_warp(), sum, bits);
  out[threadIdx.x] = sum;
}
TEST_F(EmulatedSpellingTest, AMaskOf32BitsIsFoundInAWarpOf64) {
  EXPECT_EQ(fault_of(EMULATOR_KERNEL(sum_of_32), "warp=32"), "");
  expect_mentions(fault_of(EMULATOR_KERNEL(sum_of_32), "warp=64"),
                  {"sum_of_32", "__shfl_xor_sync", "spelling_test.cpp", "0xffffffff",
                   "names half of this warp's 64 lanes", "full_warp()"});
  for (const char* machine : {"warp=32", "warp=64"}) {
    std::vector<int> got;
    EXPECT_EQ(fault_of(EMULATOR_KERNEL(sum_of_the_warp), machine, &got), "");
    EXPECT_EQ(got[5], machine == std::string("warp=32") ? 32 : 64);
  }
}

__global__ void ballot_without_the_others(int* out) {
  if (lane() % 2 == 0) out[threadIdx.x] = __popcll(__ballot_sync(full_warp(), 1));
}
__global__ void ballot_of_those_told_before(int* out) {
  const LaneMask even = __ballot_sync(full_warp(), lane() % 2 == 0);
  if (lane() % 2 == 0) out[threadIdx.x] = __popcll(__ballot_sync(even, 1));
}
TEST_F(EmulatedSpellingTest, ALaneThatTheMaskNamesAndThatDoesNotCome) {
  for (const char* machine : {"warp=32", "warp=64", "warp=32,order=seed:3"}) {
    expect_mentions(fault_of(EMULATOR_KERNEL(ballot_without_the_others), machine),
                    {"ballot_without_the_others", "has returned", "spelling_test.cpp"});
    EXPECT_EQ(fault_of(EMULATOR_KERNEL(ballot_of_those_told_before), machine), "");
  }
}

__global__ void outside_the_mask(int* out) {
  out[threadIdx.x] = __any_sync(full_warp() & ~LaneMask{2}, 1);
}
TEST_F(EmulatedSpellingTest, ALaneOutsideItsOwnMask) {
  expect_mentions(fault_of(EMULATOR_KERNEL(outside_the_mask), "warp=32"), {"__any_sync", "not in its own mask"});
}

__global__ void shuffle_from_a_lane_that_is_elsewhere(int* out) {
  const LaneMask low = 0xff;
  if (lane() < 8) out[threadIdx.x] = __shfl_sync(low, lane(), 9);
}
__global__ void shuffle_from_a_lane_that_is_there(int* out) {
  const LaneMask low = 0xff;
  if (lane() < 8) out[threadIdx.x] = __shfl_sync(low, lane(), 7);
}
TEST_F(EmulatedSpellingTest, AShuffleFromALaneOutsideTheMaskIsPoison) {
  std::vector<int> got;
  EXPECT_EQ(fault_of(EMULATOR_KERNEL(shuffle_from_a_lane_that_is_elsewhere), "warp=64", &got), "");
  EXPECT_EQ(got[3], -1);
  EXPECT_EQ(fault_of(EMULATOR_KERNEL(shuffle_from_a_lane_that_is_there), "warp=64", &got), "");
  EXPECT_EQ(got[3], 7);
}

__global__ void up_and_down(int* out) {
  const int v = static_cast<int>(threadIdx.x);
  // Both calls are on the same line, and the emulator must still distinguish them.
  // clang-format off
  out[threadIdx.x] = v % 2 == 0 ? __shfl_up_sync(full_warp(), v, 1) : __shfl_down_sync(full_warp(), v, 1);
  // clang-format on
}
TEST_F(EmulatedSpellingTest, LanesOfOneMaskInDifferentShuffles) {
  expect_mentions(fault_of(EMULATOR_KERNEL(up_and_down), "warp=32"),
                  {"different warp operations", "__shfl_up_sync", "__shfl_down_sync"});
}

__global__ void width_of_24(int* out) {
  out[threadIdx.x] = __shfl_sync(full_warp(), 1, 0, 24);
}
__global__ void width_of_64(int* out) {
  out[threadIdx.x] = __shfl_sync(full_warp(), 1, 0, 64);
}
TEST_F(EmulatedSpellingTest, WidthsThatNoWarpHas) {
  expect_mentions(fault_of(EMULATOR_KERNEL(width_of_24), "warp=32"), {"__shfl_sync", "the width 24", "power of two"});
  expect_mentions(fault_of(EMULATOR_KERNEL(width_of_64), "warp=32"), {"__shfl_sync", "the width 64"});
  EXPECT_EQ(fault_of(EMULATOR_KERNEL(width_of_64), "warp=64"), "");
}

__global__ void tile_with_a_lane_missing(int* out) {
  const auto tile = cooperative_groups::tiled_partition<16>(cooperative_groups::this_thread_block());
  if (tile.thread_rank() != 3) out[threadIdx.x] = tile.shfl_down(1, 1);
}
TEST_F(EmulatedSpellingTest, ATileWithALaneMissing) {
  expect_mentions(fault_of(EMULATOR_KERNEL(tile_with_a_lane_missing), "warp=64"),
                  {"lane 3 of warp 0 has returned", "0xffff ", "spelling_test.cpp"});
}

// Reads a value that the next lane has written; only a __syncwarp between the two guarantees the order.
template <bool Sync>
__global__ void neighbours(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = -2;
  __syncthreads();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if constexpr (Sync) __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
TEST_F(EmulatedSpellingTest, AMissingSyncwarpGivesAWrongValue) {
#if !defined(__SANITIZE_THREAD__)  // TSan reports the error
  std::vector<int> got;
  EXPECT_EQ(fault_of(EMULATOR_KERNEL(neighbours<false>), "warp=32,order=reverse", &got), "");
  EXPECT_EQ(got[1], -2);
#endif
  std::vector<int> right;
  EXPECT_EQ(fault_of(EMULATOR_KERNEL(neighbours<true>), "warp=32,order=reverse", &right), "");
  for (int i = 0; i < 64; ++i) EXPECT_EQ(right[static_cast<std::size_t>(i)], i ^ 1);
}

// --- symbols ---------------------------------------------------------------------------------------

__constant__ int table[4];

TEST_F(EmulatedSpellingTest, SymbolsFollowTheRulesOfCopies) {
  configure("grace=60,devices=2");
  Stream stream;
  auto* pinned = static_cast<int*>(malloc_pinned(16));
  for (int i = 0; i < 4; ++i) pinned[i] = i + 1;
  copy_to_symbol(EMULATOR_SYMBOL(table), pinned, 16, stream);
  EXPECT_EQ(table[0], 0) << "a copy from page-locked memory ran before it was demanded";
  stream.synchronize();
  EXPECT_EQ(table[3], 4);
  DeviceArray<int> few(2);
  expect_mentions(error_of([&] { copy_from_symbol(few.get(), EMULATOR_SYMBOL(table), 16, stream); }),
                  {"copy_from_symbol", "malloc_device"});
  std::vector<int> pageable(4);
  const auto capture = [&](int* from) {
    return error_of([&] { Graph(stream, [&] { copy_to_symbol(EMULATOR_SYMBOL(table), from, 16, stream); }); });
  };
  EXPECT_EQ(capture(pinned), "");
  expect_mentions(capture(pageable.data()), {"copy_to_symbol", "captured"});
  {
    const Selected second(1);
    expect_mentions(error_of([&] { copy_to_symbol(EMULATOR_SYMBOL(table), pinned, 16, stream); }),
                    {"the stream belongs to device 0"});
  }
  free_pinned(pinned);
}

}  // namespace
}  // namespace emulator
