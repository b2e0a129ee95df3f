// Convolutions by cuDNN, against a false libcudnn.so.9 that the loader finds first: needs no GPU and no CUDA.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "device/device.hpp"
#include "fake_cudnn.hpp"

namespace isthmus::device {

// The rest of a backend.
int selected() {
  return 0;
}
Stream::Stream() {
  handle_ = this;
}
Stream::~Stream() = default;

namespace {

using Math = Convolutions::Math;
using Algorithms = Convolutions::Algorithms;

/// Kept open, so that it is the library's own.
FakeCudnn& fake() {
  static void* const file = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  static auto* const find = reinterpret_cast<FakeCudnn* (*)()>(dlsym(file, "fake_cudnn"));
  return *find();
}

/// Of images of two planes of 3 × 4 each; another one for each test, because what was found is kept.
ConvolutionShape shape_of(std::int64_t images) {
  return {.images = images,
          .channels = 2,
          .height = 3,
          .width = 4,
          .filters = 3,
          .window_height = 3,
          .window_width = 2,
          .stride = 2,
          .padding = 1,
          .in_image = 12,
          .in_channel = images * 12 + 4,
          .out_image = 6,
          .out_channel = images * 6 + 2};
}

class Cudnn : public testing::Test {
 protected:
  void SetUp() override { fake() = {}; }
  void TearDown() override { EXPECT_EQ(fake().made, fake().destroyed); }

  static Error error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error;
    }
    return {ErrorKind::failure, "none", "none", "none"};
  }
  static void expect_mentions(const Error& error, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
};

TEST_F(Cudnn, IsToldShapesAndDistances) {
  const ConvolutionShape s = shape_of(5);
  ASSERT_EQ(s.out_height(), 2);
  ASSERT_EQ(s.out_width(), 3);
  std::vector<float> in(static_cast<std::size_t>(s.channels * s.in_channel)),
      filters(static_cast<std::size_t>(s.filters * s.channels * 6)),
      out(static_cast<std::size_t>(s.filters * s.out_channel), -1.0f), expected = out;
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7 % 11);
  for (std::size_t i = 0; i < filters.size(); ++i) filters[i] = static_cast<float>(i * 5 % 13);
  for (std::int64_t b = 0; b < s.images; ++b) {
    for (std::int64_t m = 0; m < s.filters; ++m) {
      for (std::int64_t i = 0; i < 6; ++i) {
        float sum = 0;
        for (std::int64_t k = 0; k < s.channels * 6; ++k) {
          const std::int64_t y = i / 3 * 2 + k % 6 / 2 - 1, x = i % 3 * 2 + k % 2 - 1;
          if (y < 0 || y > 2 || x < 0 || x > 3) continue;
          sum += in[static_cast<std::size_t>(k / 6 * s.in_channel + b * 12 + y * 4 + x)] *
                 filters[static_cast<std::size_t>(m * 12 + k)];
        }
        expected[static_cast<std::size_t>(m * s.out_channel + b * 6 + i)] = sum;
      }
    }
  }
  Convolutions library(Math::fp32, Algorithms::any);
  Stream stream;
  library.run(stream, library.plan(s), in.data(), filters.data(), out.data(), nullptr);
  EXPECT_EQ(out, expected);
  EXPECT_EQ(fake().stream, stream.native_handle());
}

TEST_F(Cudnn, TheFastestThatSuitsIsTaken) {
  constexpr std::size_t gib = std::size_t{1} << 30;
  fake().trials = {{3, 3000, 0.1f, 0, 1, 3, {}}, {2, 0, 0.2f, 3 * gib, 1, 3, {}}, {0, 0, 0.3f, 0, 0, 3, {}},
                   {9, 0, 0.35f, 0, 1, 3, {}},   {1, 0, 5.0f, 16, 1, 3, {}},      {7, 0, 0.4f, 2 * gib, 1, 3, {}},
                   {0, 0, 6.0f, 0, 1, 3, {}}};
  Stream stream;
  std::vector<float> memory(1000);
  const auto expect = [&](Algorithms algorithms, int number, const char* name, bool transforms, std::size_t bytes) {
    Convolutions library(Math::fp32, algorithms);
    const auto plan = library.plan(shape_of(1));
    EXPECT_EQ(library.chosen(plan).algorithm, name);
    EXPECT_EQ(library.chosen(plan).transforms, transforms);
    EXPECT_EQ(library.chosen(plan).workspace_bytes, bytes);
    expect_mentions(error_of([&] { library.run(stream, plan, memory.data(), memory.data(), memory.data(), nullptr); }),
                    {"convolutions_run", "bytes of workspace and was given none"});
    library.run(stream, plan, memory.data(), memory.data(), memory.data() + 500, memory.data());
    EXPECT_EQ(fake().algorithm_of_run, number);
    EXPECT_EQ(fake().workspace_of_run, bytes);
  };
  expect(Algorithms::any, 7, "WINOGRAD_NONFUSED", true, 2 * gib);
  expect(Algorithms::products, 1, "IMPLICIT_PRECOMP_GEMM", false, 16);
}

TEST_F(Cudnn, NoneThatSuitsIsSaid) {
  fake().trials = {{3, 3000, 0.1f, 0, 1, 3, {}}, {2, 0, 0.2f, std::size_t{3} << 30, 1, 3, {}}};
  Convolutions library(Math::fp32, Algorithms::any);
  const auto error = error_of([&] { library.plan(shape_of(2)); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  expect_mentions(error, {"convolutions_plan", "at most 2147483648 bytes", "3: status 3000, 0 bytes",
                          "2: status 0, 3221225472 bytes"});
  // It is not remembered as found.
  fake().trials = {{2, 0, 0.2f, 0, 1, 3, {}}};
  EXPECT_EQ(library.chosen(library.plan(shape_of(2))).algorithm, "GEMM");
}

TEST_F(Cudnn, StrictStaysStrict) {
  Stream stream;
  std::vector<float> memory(10000);
  const auto expect = [&](Math math, int told, int searched, int ran) {
    fake().trials = {{1, 0, 1, 0, 1, told, {}}};
    Convolutions library(math, Algorithms::any);
    // A shape for each search.
    const auto plan = library.plan(shape_of(10 + 4 * static_cast<int>(math) + told));
    library.run(stream, plan, memory.data(), memory.data(), memory.data() + 5000, nullptr);
    EXPECT_EQ(fake().math_of_search, searched);
    EXPECT_EQ(fake().math_of_run, ran);
    EXPECT_EQ(library.chosen(plan).tf32, ran != 3);
  };
  expect(Math::fp32, 3, 3, 3);
  expect(Math::fp32, 0, 3, 3);
  expect(Math::tf32, 0, 0, 0);
  expect(Math::tf32, 1, 0, 1);
  expect(Math::tf32, 3, 0, 3);
}

TEST_F(Cudnn, EachShapeIsSearchedOnce) {
  const auto plan = [](Math math, Algorithms algorithms, ConvolutionShape shape, std::int64_t channel) {
    shape.in_channel += channel;
    Convolutions library(math, algorithms);
    library.plan(shape);
    EXPECT_EQ(library.plan(shape), 1u);
    return fake().searches;
  };
  EXPECT_EQ(plan(Math::fp32, Algorithms::any, shape_of(3), 0), 1);
  EXPECT_EQ(plan(Math::fp32, Algorithms::any, shape_of(3), 0), 1);
  EXPECT_EQ(plan(Math::fp32, Algorithms::any, shape_of(3), 1), 2);
  EXPECT_EQ(plan(Math::fp32, Algorithms::products, shape_of(3), 0), 3);
  EXPECT_EQ(plan(Math::tf32, Algorithms::any, shape_of(3), 0), 4);
}

TEST_F(Cudnn, ErrorsAreOfTheirKind) {
  const auto made = [] { Convolutions(Math::fp32, Algorithms::any).plan(shape_of(4)); };
  for (const auto& [status, kind] : {std::pair{1001, ErrorKind::failure},
                                     {2, ErrorKind::out_of_memory},
                                     {4003, ErrorKind::out_of_memory},
                                     {4004, ErrorKind::out_of_memory},
                                     {9, ErrorKind::unsupported},
                                     {3004, ErrorKind::unsupported},
                                     {5000, ErrorKind::failure}}) {
    for (const char* function :
         {"cudnnCreate", "cudnnCreateTensorDescriptor", "cudnnCreateFilterDescriptor",
          "cudnnCreateConvolutionDescriptor", "cudnnSetTensor4dDescriptorEx", "cudnnSetFilter4dDescriptor",
          "cudnnSetConvolution2dDescriptor", "cudnnSetConvolutionMathType", "cudnnFindConvolutionForwardAlgorithm"}) {
      fake().fails = function;
      fake().status = status;
      const auto error = error_of(made);
      EXPECT_EQ(error.kind(), kind) << function << status;
      expect_mentions(error, {function, "libcudnn.so.9 returned status", "(CUDNN_STATUS_OF_A_FAKE)"});
    }
  }
  fake().fails = "";
  Convolutions library(Math::fp32, Algorithms::any);
  const auto plan = library.plan(shape_of(4));
  Stream stream;
  std::vector<float> memory(1000);
  for (const char* function : {"cudnnSetStream", "cudnnConvolutionForward"}) {
    fake().fails = function;
    expect_mentions(error_of([&] { library.run(stream, plan, memory.data(), memory.data(), memory.data(), nullptr); }),
                    {"convolutions_run", function});
  }
}

TEST_F(Cudnn, VersionsOfBothKinds) {
  const Convolutions library(Math::fp32, Algorithms::any);
  EXPECT_EQ(library.version(), "cuDNN 9.19.0");
  fake().version = 8906;
  EXPECT_EQ(library.version(), "cuDNN 8.9.6");
}

}  // namespace
}  // namespace isthmus::device
