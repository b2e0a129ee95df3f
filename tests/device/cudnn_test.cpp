// Tests of convolutions by cuDNN against a fake libcudnn.so.9.

#include "convolutions_test.hpp"

namespace isthmus::device {
namespace {

class Cudnn : public FakeConvolutionsTest<FakeCudnn> {
 protected:
  Cudnn() : FakeConvolutionsTest("libcudnn.so.9") {}
};

TEST_F(Cudnn, IsToldShapesAndDistances) {
  expect_sums(shape_of(5, false));
  expect_sums(shape_of(5, true));
}

TEST_F(Cudnn, TheFastestThatSuitsIsTaken) {
  constexpr std::size_t gib = std::size_t{1} << 30;
  fake().trials = {{3, 3000, 0.1f, 0, 1, 3, {}}, {2, 0, 0.2f, 3 * gib, 1, 3, {}}, {0, 0, 0.3f, 0, 0, 3, {}},
                   {9, 0, 0.35f, 0, 1, 3, {}},   {1, 0, 5.0f, 16, 1, 3, {}},      {7, 0, 0.4f, 2 * gib, 1, 3, {}},
                   {0, 0, 6.0f, 0, 1, 3, {}}};
  const auto expect = [&](Algorithms algorithms, int number, const char* name, bool transforms, std::size_t bytes) {
    const auto chosen = run_of(algorithms, shape_of(1, false));
    EXPECT_EQ(chosen.algorithm, name);
    EXPECT_EQ(chosen.transforms, transforms);
    EXPECT_EQ(chosen.workspace_bytes, bytes);
    EXPECT_EQ(fake().algorithm_of_run, number);
  };
  expect(Algorithms::any, 7, "WINOGRAD_NONFUSED", true, 2 * gib);
  expect(Algorithms::products, 1, "IMPLICIT_PRECOMP_GEMM", false, 16);
}

TEST_F(Cudnn, ASearchUsesNoStreamOfARun) {
  expect_no_stream_in_a_search(shape_of(30, false), shape_of(31, false));
}

TEST_F(Cudnn, NoneThatSuitsIsSaid) {
  fake().trials = {{3, 3000, 0.1f, 0, 1, 3, {}}, {2, 0, 0.2f, std::size_t{3} << 30, 1, 3, {}}};
  Convolutions library(Math::fp32, Algorithms::any);
  const auto error = error_of([&] { library.plan(shape_of(2, false)); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  expect_mentions(error, {"convolutions_plan", "cuDNN has no deterministic algorithm", "at most 2147483648 bytes",
                          "3: status 3000, 0 bytes", "2: status 0, 3221225472 bytes"});
  // The failure is not cached as a result.
  fake().trials = {{2, 0, 0.2f, 0, 1, 3, {}}};
  EXPECT_EQ(library.chosen(library.plan(shape_of(2, false))).algorithm, "GEMM");
}

TEST_F(Cudnn, StrictStaysStrict) {
  Stream stream;
  std::vector<float> memory(10000);
  const auto expect = [&](Math math, int told, int searched, int ran) {
    fake().trials = {{1, 0, 1, 0, 1, told, {}}};
    Convolutions library(math, Algorithms::any);
    // Each case has a different shape, because search results are cached.
    const auto plan = library.plan(shape_of(10 + 4 * static_cast<int>(math) + told, false));
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
  const auto plan = [&](Math math, Algorithms algorithms, std::int64_t channel) {
    auto shape = shape_of(3, false);
    shape.in_channel += channel;
    Convolutions library(math, algorithms);
    library.plan(shape);
    EXPECT_EQ(library.plan(shape), 1u);
    return fake().searches;
  };
  EXPECT_EQ(plan(Math::fp32, Algorithms::any, 0), 1);
  EXPECT_EQ(plan(Math::fp32, Algorithms::any, 0), 1);
  EXPECT_EQ(plan(Math::fp32, Algorithms::any, 1), 2);
  EXPECT_EQ(plan(Math::fp32, Algorithms::products, 0), 3);
  EXPECT_EQ(plan(Math::tf32, Algorithms::any, 0), 4);
}

TEST_F(Cudnn, ErrorsAreOfTheirKind) {
  expect_errors(
      shape_of(4, false),
      {{1001, ErrorKind::failure},
       {2, ErrorKind::out_of_memory},
       {4003, ErrorKind::out_of_memory},
       {4004, ErrorKind::out_of_memory},
       {9, ErrorKind::unsupported},
       {3004, ErrorKind::unsupported},
       {5000, ErrorKind::failure}},
      {"cudnnCreate", "cudnnCreateTensorDescriptor", "cudnnCreateFilterDescriptor", "cudnnCreateConvolutionDescriptor",
       "cudnnSetTensor4dDescriptorEx", "cudnnSetFilter4dDescriptor", "cudnnSetConvolution2dDescriptor",
       "cudnnSetConvolutionMathType", "cudnnFindConvolutionForwardAlgorithm"},
      {"cudnnSetStream", "cudnnConvolutionForward"});
}

TEST_F(Cudnn, VersionsOfBothKinds) {
  const Convolutions library(Math::fp32, Algorithms::any);
  EXPECT_EQ(library.version(), "cuDNN 9.19.0");
  fake().version = 8906;
  EXPECT_EQ(library.version(), "cuDNN 8.9.6");
}

}  // namespace
}  // namespace isthmus::device
