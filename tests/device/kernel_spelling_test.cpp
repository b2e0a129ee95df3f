// Tests of CUDA's spellings in kernels against serial references, on any available device. The emulator runs them once
// with warps of 32 threads and once with warps of 64 (CMakeLists.txt).

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "device/kernel/float16.hpp"

namespace isthmus::device {
namespace {

class SpellingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (count() == 0) GTEST_SKIP() << "no device is visible";
    select(0);
    warp_ = info(0).warp_size;
  }
  int warp_ = 0;
};

template <class T>
class Output {
 public:
  explicit Output(std::size_t size) : size_(size), data_(static_cast<T*>(malloc_device(size * sizeof(T)))) {}
  explicit Output(const std::vector<T>& values) : Output(values.size()) {
    device::copy(data_, values.data(), size_ * sizeof(T));
  }
  ~Output() { free_device(data_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(size_);
    device::copy(values.data(), data_, size_ * sizeof(T));
    return values;
  }

 private:
  std::size_t size_;
  T* data_;
};

constexpr unsigned threads = 128;

/// Runs `kernel` and returns its output, which has `each` values per thread.
template <class T>
std::vector<T> run(Kernel<T*> kernel, std::size_t each = 1) {
  Output<T> out(threads * each);
  Stream stream;
  launch(stream, kernel, {.grid = 1, .block = threads}, out.get());
  stream.synchronize();
  return out.host();
}

// --- shuffles --------------------------------------------------------------------------------------

constexpr int shuffles = 8;

template <class T>
__global__ void shuffle_all(T* out) {
  const T v = static_cast<T>(threadIdx.x * 3 + 1);
  T* mine = out + threadIdx.x * shuffles;
  mine[0] = __shfl_sync(full_warp(), v, 5);
  mine[1] = __shfl_up_sync(full_warp(), v, 3);
  mine[2] = __shfl_down_sync(full_warp(), v, 6);
  mine[3] = __shfl_xor_sync(full_warp(), v, 9);
  // With a width, a source lane is numbered within its segment, and values do not cross the segment's end.
  mine[4] = __shfl_sync(full_warp(), v, 19, 16);
  mine[5] = __shfl_up_sync(full_warp(), v, 2, 8);
  mine[6] = __shfl_down_sync(full_warp(), v, 3, 4);
  mine[7] = __shfl_xor_sync(full_warp(), v, 5, 4);
}

/// Returns the thread whose value thread `i` receives.
int shuffle_source(int which, int i, int warp) {
  const auto first = [&](int width) { return i / width * width; };
  switch (which) {
    case 0:
      return first(warp) + 5;
    case 1:
      return i - 3 < first(warp) ? i : i - 3;
    case 2:
      return i + 6 >= first(warp) + warp ? i : i + 6;
    case 3:
      return i ^ 9;
    case 4:
      return first(16) + 3;
    case 5:
      return i - 2 < first(8) ? i : i - 2;
    case 6:
      return i + 3 >= first(4) + 4 ? i : i + 3;
    default:
      // A lane may read from an earlier segment, but not from a later one.
      return (i ^ 5) >= first(4) + 4 ? i : i ^ 5;
  }
}

template <class T>
void check_shuffles(int warp) {
  const std::vector<T> got = run(ISTHMUS_KERNEL(shuffle_all<T>), shuffles);
  for (int i = 0; i < static_cast<int>(threads); ++i) {
    for (int which = 0; which < shuffles; ++which) {
      ASSERT_EQ(got[static_cast<std::size_t>(i * shuffles + which)],
                static_cast<T>(shuffle_source(which, i, warp) * 3 + 1))
          << "shuffle " << which << " of thread " << i;
    }
  }
}

TEST_F(SpellingTest, ShufflesOfEveryType) {
  check_shuffles<int>(warp_);
  check_shuffles<unsigned>(warp_);
  check_shuffles<long>(warp_);
  check_shuffles<unsigned long>(warp_);
  check_shuffles<long long>(warp_);
  check_shuffles<unsigned long long>(warp_);
  check_shuffles<float>(warp_);
  check_shuffles<double>(warp_);
}

__global__ void warp_sums(int* out) {
  int sum = static_cast<int>(threadIdx.x);
  for (int delta = warpSize / 2; delta > 0; delta /= 2) sum += __shfl_down_sync(full_warp(), sum, delta);
  out[threadIdx.x] = sum;
}

TEST_F(SpellingTest, AReductionOverWarpSizeLanes) {
  const std::vector<int> got = run(ISTHMUS_KERNEL(warp_sums));
  for (int first = 0; first < static_cast<int>(threads); first += warp_) {
    EXPECT_EQ(got[static_cast<std::size_t>(first)], warp_ * first + warp_ * (warp_ - 1) / 2);
  }
}

// --- votes and matches -----------------------------------------------------------------------------

constexpr int votes = 8;

__global__ void vote(LaneMask* out) {
  const int t = static_cast<int>(threadIdx.x), mine_in_warp = t % warpSize;
  LaneMask* mine = out + threadIdx.x * votes;
  mine[0] = __ballot_sync(full_warp(), mine_in_warp % 3 == 0);
  mine[1] = static_cast<LaneMask>(__any_sync(full_warp(), t == 17)) * 2 +
            static_cast<LaneMask>(__all_sync(full_warp(), t < warpSize));
  mine[2] = __match_any_sync(full_warp(), mine_in_warp % 5);
  int same = -1;
  mine[3] = __match_all_sync(full_warp(), 2.5, &same);
  mine[4] = static_cast<LaneMask>(same);
  mine[5] = __match_all_sync(full_warp(), t % 2, &same);
  mine[6] = static_cast<LaneMask>(same);
  // The mask of the lanes that take the branch must be computed before the branch.
  const LaneMask part = __ballot_sync(full_warp(), mine_in_warp < 20);
  mine[7] = 0;
  if (mine_in_warp < 20) {
    __syncwarp(part);
    mine[7] = __ballot_sync(part, mine_in_warp % 2 != 0);
  }
  __syncwarp();
}

TEST_F(SpellingTest, VotesAndMatches) {
  const std::vector<LaneMask> got = run(ISTHMUS_KERNEL(vote), votes);
  const auto lanes = [&](auto takes) {
    LaneMask mask = 0;
    for (int lane = 0; lane < warp_; ++lane) mask |= takes(lane) ? LaneMask{1} << lane : 0;
    return mask;
  };
  for (int i = 0; i < static_cast<int>(threads); ++i) {
    const LaneMask* mine = &got[static_cast<std::size_t>(i) * static_cast<std::size_t>(votes)];
    const int own = i % warp_;
    ASSERT_EQ(mine[0], lanes([](int lane) { return lane % 3 == 0; })) << i;
    ASSERT_EQ(mine[1], (i < warp_ ? 3u : 0u)) << i;
    ASSERT_EQ(mine[2], lanes([&](int lane) { return lane % 5 == own % 5; })) << i;
    ASSERT_EQ(mine[3], lanes([](int) { return true; })) << i;
    ASSERT_EQ(mine[4], 1u) << i;
    ASSERT_EQ(mine[5], 0u) << i;
    ASSERT_EQ(mine[6], 0u) << i;
    ASSERT_EQ(mine[7], own < 20 ? lanes([](int lane) { return lane < 20 && lane % 2 != 0; }) : 0) << i;
  }
}

// --- cooperative groups ----------------------------------------------------------------------------

__global__ void tiles(int* out) {
  namespace cg = cooperative_groups;
  __shared__ int seen[threads];
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int rank = static_cast<int>(tile.thread_rank());
  seen[block.thread_rank()] = rank;
  block.sync();
  int sum = seen[threads - 1 - block.thread_rank()];
  for (int delta = 4; delta > 0; delta /= 2) sum += tile.shfl_xor(sum, delta);
  tile.sync();
  out[threadIdx.x] =
      sum * 100 + tile.shfl(rank, 3) * 10 + static_cast<int>(tile.size() == 8 && block.size() == threads);
}

TEST_F(SpellingTest, TilesOfABlock) {
  for (const int got : run(ISTHMUS_KERNEL(tiles))) ASSERT_EQ(got, 28 * 100 + 31);
}

// --- loads and stores ------------------------------------------------------------------------------

template <class T>
__global__ void pass_on(T* out) {
  T* mine = out + threadIdx.x * 4;
  __stcg(&mine[0], __ldg(&mine[3]));
  __stcs(&mine[1], __ldcg(&mine[3]));
  __stwb(&mine[2], __ldcs(&mine[3]));
  __stcg(&mine[3], __ldca(&mine[2]));
}

template <class T>
void check_hinted() {
  std::vector<T> values(threads * 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    unsigned char pattern[sizeof(T)];
    std::memset(pattern, static_cast<int>(1 + i % 120), sizeof(T));
    std::memcpy(&values[i], pattern, sizeof(T));
  }
  Output<T> out(values);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(pass_on<T>), {.grid = 1, .block = threads}, out.get());
  stream.synchronize();
  const std::vector<T> got = out.host();
  const auto bytes = [](const T& value) {
    std::array<unsigned char, sizeof(T)> found{};
    std::memcpy(found.data(), &value, sizeof(T));
    return found;
  };
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(bytes(got[i]), bytes(values[i / 4 * 4 + 3])) << i;
}

TEST_F(SpellingTest, LoadsAndStoresWithACacheHint) {
  check_hinted<char>();
  check_hinted<int>();
  check_hinted<unsigned long long>();
  check_hinted<float>();
  check_hinted<double>();
  check_hinted<uchar4>();
  check_hinted<char2>();
  check_hinted<short2>();
  check_hinted<ushort4>();
  check_hinted<int4>();
  check_hinted<float2>();
  check_hinted<float4>();
  check_hinted<double2>();
}

// --- bits, casts, conversions, min and max ---------------------------------------------------------

__global__ void bits(unsigned long long* out) {
  int i = 0;
  const auto keep = [&](auto value) { out[i++] = static_cast<unsigned long long>(value); };
  keep(__popc(0xf0f1u));
  keep(__popcll(~0ULL >> 1));
  keep(__clz(1 << 20));
  keep(__clz(0));
  keep(__clzll(1LL << 40));
  keep(__clzll(0));
  keep(__ffs(48));
  keep(__ffs(0));
  keep(__ffsll(1LL << 33));
  keep(__brev(1u << 3 | 1u << 30));
  keep(__brevll(1ULL << 3));
  keep(static_cast<unsigned>(__float_as_int(-1.5f)));
  keep(__float_as_uint(1.5f));
  keep(__int_as_float(0x40490fdb) == 3.14159274f);
  keep(__uint_as_float(0x3fc00000u) == 1.5f);
  keep(__double_as_longlong(1.0));
  keep(__longlong_as_double(0x4000000000000000LL) == 2.0);
  keep(__umulhi(0x80000000u, 6u));
  keep(__umul64hi(1ULL << 63, 10ULL));
  keep(__byte_perm(0x33221100u, 0x77665544u, 0x6420u));
}

TEST_F(SpellingTest, BitsAndCasts) {
  Output<unsigned long long> out(20);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(bits), {.grid = 1, .block = 1}, out.get());
  stream.synchronize();
  EXPECT_EQ(out.host(), (std::vector<unsigned long long>{9,           63,
                                                         11,          32,
                                                         23,          64,
                                                         5,           0,
                                                         34,          1u << 28 | 1u << 1,
                                                         1ULL << 60,  0xbfc00000u,
                                                         0x3fc00000u, 1,
                                                         1,           0x3ff0000000000000ULL,
                                                         1,           3,
                                                         5,           0x66442200u}));
}

__global__ void conversions(const float* in, long long* out) {
  const float v = in[threadIdx.x];
  long long* mine = out + threadIdx.x * 8;
  mine[0] = __float2int_rn(v);
  mine[1] = __float2int_rz(v);
  mine[2] = __float2int_ru(v);
  mine[3] = __float2int_rd(v);
  mine[4] = __float2uint_rn(v);
  mine[5] = __float2ll_rn(v);
  mine[6] = __double2int_rn(static_cast<double>(v));
  mine[7] = static_cast<long long>(__int2float_rn(__float2int_rz(v)));
}

TEST_F(SpellingTest, ConversionsRound) {
  const std::vector<float> values{0.5f, 1.5f, -2.5f, 2.4f, -0.9f, 1e6f, 16777217.0f, 3.0f};
  Output<float> in(values);
  Output<long long> out(values.size() * 8);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(conversions), {.grid = 1, .block = static_cast<unsigned>(values.size())}, in.get(),
         out.get());
  stream.synchronize();
  const std::vector<long long> got = out.host();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float v = values[i];
    const auto nearest = static_cast<long long>(std::nearbyint(v));
    const std::vector<long long> expected{nearest,
                                          static_cast<long long>(std::trunc(v)),
                                          static_cast<long long>(std::ceil(v)),
                                          static_cast<long long>(std::floor(v)),
                                          v < 0 ? got[i * 8 + 4] : nearest,  // unchecked below zero: vendors differ
                                          nearest,
                                          nearest,
                                          static_cast<long long>(std::trunc(v))};
    EXPECT_EQ(std::vector<long long>(got.begin() + static_cast<std::ptrdiff_t>(i * 8),
                                     got.begin() + static_cast<std::ptrdiff_t>(i * 8 + 8)),
              expected)
        << v;
  }
}

__global__ void arithmetic(double* out) {
  int i = 0;
  const auto keep = [&](auto value) { out[i++] = static_cast<double>(value); };
  keep(__fmaf_rn(3.0f, 5.0f, 0.5f));
  keep(__fma_rn(3.0, 5.0, 0.5));
  keep(__fadd_rn(1.0f, 0x1p-24f) + __fmul_rn(3.0f, 2.0f) + __fsub_rn(1.0f, 4.0f));
  keep(rsqrtf(0.0625f));
  keep(rsqrt(0.25));
  keep(__expf(1.0f));
  keep(__logf(8.0f));
  keep(__saturatef(1.5f) + __saturatef(-3.0f) + __saturatef(0.25f));
  keep(min(3, -5));
  keep(max(3u, 7u));
  keep(max(-1, 7u));  // converts as in an expression, where -1 becomes 4294967295
  keep(min(1.5f, 0.5));
  keep(max(2LL, 9LL));
  keep(max(__int_as_float(0x7fc00000), 4.0f));
  keep(min(5UL, 3UL));
}

TEST_F(SpellingTest, ArithmeticAndMinMax) {
  const std::vector<double> expected{15.5,       15.5, 4, 4, 2, std::exp(1.0), std::log(8.0), 1.25, -5, 7,
                                     4294967295, 0.5,  9, 4, 3};
  Output<double> out(expected.size());
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(arithmetic), {.grid = 1, .block = 1}, out.get());
  stream.synchronize();
  const std::vector<double> got = out.host();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 4e-6 * std::abs(expected[i])) << i;
}

// --- 16-bit numbers --------------------------------------------------------------------------------

__global__ void through_16_bits(const float* in, unsigned* out, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const half h = from_float<half>(in[i]);
    const bfloat16 b = from_float<bfloat16>(in[i]);
    out[i * 2] = __float_as_uint(to_float(h));
    out[i * 2 + 1] = __float_as_uint(__bfloat162float(b));
  }
}

/// Returns `value` rounded, ties to even, to a format with `fraction` fraction bits and a smallest exponent of
/// `least_exponent`; infinity above `largest`. Uses only arithmetic on doubles.
double rounded(double value, int fraction, int least_exponent, double largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), least_exponent);
  const double unit = std::ldexp(1.0, exponent - fraction);
  const double result = std::nearbyint(value / unit) * unit;
  return std::abs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

TEST_F(SpellingTest, SixteenBitsRoundToNearestEven) {
  std::vector<float> values{0.0f,         -0.0f,     1.0f,     0x1p-24f, 0x1p-25f, 0x1.8p-25f,
                            65504.0f,     65519.99f, 65520.0f, -7e4f,    0x1p-14f, 0x1.ffep-15f,
                            0x1.fffp-15f, 3.4e38f,   1e-40f,   INFINITY, -INFINITY};
  // Values halfway between two 16-bit numbers, with an even or odd lower one, and the nearest floats on either side.
  for (const int bits : {10, 7}) {
    for (const float base : {1.0f, 1.0f + std::ldexp(1.0f, -bits)}) {
      const float half_way = base + std::ldexp(1.0f, -bits - 1);
      for (const float v : {half_way, std::nextafter(half_way, 0.0f), std::nextafter(half_way, 2.0f)}) {
        values.push_back(v);
        values.push_back(-v);
      }
    }
  }
  // Floats of all magnitudes, at equal steps of their bit patterns.
  for (std::uint32_t bits = 0x1234; bits < 0x7f800000; bits += 0x00031f37) {
    float v;
    std::memcpy(&v, &bits, sizeof v);
    values.push_back(v);
  }
  Output<float> in(values);
  Output<unsigned> out(values.size() * 2);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(through_16_bits), {.grid = 8, .block = 64}, in.get(), out.get(),
         static_cast<unsigned>(values.size()));
  stream.synchronize();
  const std::vector<unsigned> got = out.host();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto expect_bits = [&](unsigned bits, double expected, const char* type) {
      const auto as_float = static_cast<float>(expected);
      unsigned expected_bits;
      std::memcpy(&expected_bits, &as_float, sizeof expected_bits);
      ASSERT_EQ(bits, expected_bits) << values[i] << " as " << type;
    };
    expect_bits(got[i * 2], rounded(values[i], 10, -14, 65504), "half");
    expect_bits(got[i * 2 + 1], rounded(values[i], 7, -126, 0x1.fep127), "bfloat16");
  }
  const float nan = std::nanf("");
  device::copy(in.get(), &nan, sizeof nan);
  launch(stream, ISTHMUS_KERNEL(through_16_bits), {.grid = 1, .block = 1}, in.get(), out.get(), 1u);
  stream.synchronize();
  float back[2];
  device::copy(back, out.get(), sizeof back);
  EXPECT_TRUE(std::isnan(back[0]) && std::isnan(back[1]));
}

TEST_F(SpellingTest, SixteenBitsOnTheHost) {
  EXPECT_EQ(to_float(from_float<half>(1.0f / 3)), 0x1.554p-2f);
  EXPECT_EQ(to_float(from_float<bfloat16>(1.0f / 3)), 0x1.56p-2f);
}

// --- symbols ---------------------------------------------------------------------------------------

__constant__ float weights[4];
__device__ int tally[3];

__global__ void use_symbols(float* out) {
  out[threadIdx.x] = weights[threadIdx.x] * 2;
  if (threadIdx.x < 3) tally[threadIdx.x] += static_cast<int>(threadIdx.x) + 1;
}

TEST_F(SpellingTest, SymbolsAreCopiedInStreamOrder) {
  const std::vector<float> first{1, 2, 3, 4}, second{5, 6};
  const std::vector<int> zero{0, 0, 0};
  Output<float> out(8);
  Stream stream;
  copy_to_symbol(ISTHMUS_SYMBOL(weights), first.data(), 16, stream);
  copy_to_symbol(ISTHMUS_SYMBOL(tally), zero.data(), 12, stream);
  launch(stream, ISTHMUS_KERNEL(use_symbols), {.grid = 1, .block = 4}, out.get());
  copy_to_symbol(ISTHMUS_SYMBOL(weights), second.data(), 8, stream);
  launch(stream, ISTHMUS_KERNEL(use_symbols), {.grid = 1, .block = 4}, out.get() + 4);
  std::vector<int> counted(3);
  std::vector<float> left(4);
  copy_from_symbol(counted.data(), ISTHMUS_SYMBOL(tally), 12, stream);
  copy_from_symbol(left.data(), ISTHMUS_SYMBOL(weights), 16, stream);
  stream.synchronize();
  EXPECT_EQ(out.host(), (std::vector<float>{2, 4, 6, 8, 10, 12, 6, 8}));
  EXPECT_EQ(counted, (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(left, (std::vector<float>{5, 6, 3, 4}));
}

TEST_F(SpellingTest, ASymbolIsNotCopiedBeyondItsEnd) {
  std::vector<float> values(5);
  Stream stream;
  try {
    copy_to_symbol(ISTHMUS_SYMBOL(weights), values.data(), 20, stream);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.call(), "copy_to_symbol");
    EXPECT_NE(std::string(error.what()).find("20 bytes of weights, which has 16"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace isthmus::device
