// Tests of convolutions by MIOpen against a fake libMIOpen.so.1.

#include "convolutions_test.hpp"

namespace isthmus::device {
namespace {

class Miopen : public FakeConvolutionsTest<FakeMiopen> {
 protected:
  Miopen() : FakeConvolutionsTest("libMIOpen.so.1") {}
};

TEST_F(Miopen, IsToldShapes) {
  expect_sums(shape_of(5, true));
  EXPECT_TRUE(fake().null_workspace);
}

TEST_F(Miopen, TakesPackedImagesOnly) {
  Convolutions library(Math::fp32, Algorithms::any);
  const auto refused = [&](const ConvolutionShape& shape) {
    const auto error = error_of([&] { library.plan(shape); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    expect_mentions(error, {"convolutions_plan", "contiguous in memory", "layout=images"});
  };
  refused(shape_of(6, false));
  for (const auto distance : {&ConvolutionShape::in_image, &ConvolutionShape::in_channel, &ConvolutionShape::out_image,
                              &ConvolutionShape::out_channel}) {
    auto shape = shape_of(6, true);
    shape.*distance += 1;
    refused(shape);
  }
  EXPECT_EQ(fake().searches, 0);
  // The stride of a dimension with one element does not matter.
  auto single = shape_of(1, true);
  single.in_image = single.out_image = 100;
  EXPECT_NO_THROW(library.plan(single));
}

TEST_F(Miopen, ASearchUsesNoStreamOfARun) {
  expect_no_stream_in_a_search(shape_of(30, true), shape_of(31, true));
}

TEST_F(Miopen, TriesAllWithoutRecordsAndWithoutTf32) {
  Convolutions library(Math::fp32, Algorithms::any);
  library.plan(shape_of(7, true));
  EXPECT_EQ(fake().find_mode, "NORMAL");
  EXPECT_EQ(fake().no_find_db, "1");
  EXPECT_EQ(fake().tf32, "0");
  EXPECT_TRUE(fake().deterministic);
  EXPECT_EQ(fake().workspace_limit, std::size_t{2} << 30);
  EXPECT_FALSE(library.chosen(0).tf32);
}

TEST_F(Miopen, TheFastestThatSuitsIsTaken) {
  constexpr std::size_t gib = std::size_t{1} << 30;
  fake().solutions = {{60, 0, 0.2f, 3 * gib}, {61, 4, 0.3f, 0}, {62, 6, 0.3f, 0},       {63, 1, 5.5f, 0},
                      {64, 5, 5.0f, 16},      {65, 2, 0.5f, 0}, {66, 3, 0.4f, 2 * gib}, {67, 0, 6.0f, 0}};
  const auto expect = [&](Algorithms algorithms, std::uint64_t solver, const char* name, bool transforms,
                          std::size_t bytes) {
    const auto chosen = run_of(algorithms, shape_of(2, true));
    EXPECT_EQ(chosen.algorithm, name);
    EXPECT_EQ(chosen.transforms, transforms);
    EXPECT_EQ(chosen.workspace_bytes, bytes);
    EXPECT_EQ(fake().solver_of_run, solver);
    EXPECT_FALSE(fake().null_workspace);
  };
  expect(Algorithms::any, 66, "WINOGRAD (solver 66)", true, 2 * gib);
  expect(Algorithms::products, 64, "IMPLICIT_GEMM (solver 64)", false, 16);
}

TEST_F(Miopen, AlgorithmsHaveTheirNames) {
  struct Known {
    int number;
    const char* name;
    bool transforms;
  };
  for (const auto& [number, name, transforms] : {Known{0, "GEMM", false},
                                                 {1, "DIRECT", false},
                                                 {2, "FFT", true},
                                                 {3, "WINOGRAD", true},
                                                 {5, "IMPLICIT_GEMM", false}}) {
    fake().solutions = {{7, number, 1, 0}};
    Convolutions library(Math::fp32, Algorithms::any);
    // Each case has a different shape, because search results are cached.
    const auto& chosen = library.chosen(library.plan(shape_of(20 + number, true)));
    EXPECT_EQ(chosen.algorithm, std::string(name) + " (solver 7)");
    EXPECT_EQ(chosen.transforms, transforms);
  }
}

TEST_F(Miopen, NoneThatSuitsIsSaid) {
  Convolutions library(Math::fp32, Algorithms::products);
  const auto refused = [&](std::vector<MiopenSolution> solutions, std::initializer_list<const char*> words) {
    fake().solutions = std::move(solutions);
    const auto error = error_of([&] { library.plan(shape_of(3, true)); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    expect_mentions(error, {"convolutions_plan", "MIOpen has no deterministic algorithm", "at most 2147483648 bytes"});
    expect_mentions(error, words);
  };
  refused({}, {"()"});
  refused({{70, 0, 0.2f, std::size_t{3} << 30}, {71, 3, 0.3f, 0}}, {"70: status 0, 3221225472 bytes", "71: status 0"});
  // The failure is not cached as a result.
  fake().solutions = {{72, 1, 0.2f, 0}};
  EXPECT_EQ(library.chosen(library.plan(shape_of(3, true))).algorithm, "DIRECT (solver 72)");
}

TEST_F(Miopen, EachShapeIsSearchedOnceAndCompiledForEachHandle) {
  const auto plan = [&](Algorithms algorithms, std::int64_t images) {
    Convolutions library(Math::fp32, algorithms);
    library.plan(shape_of(images, true));
    EXPECT_EQ(library.plan(shape_of(images, true)), 1u);
    return std::pair(fake().searches, fake().compiled);
  };
  EXPECT_EQ(plan(Algorithms::any, 8), std::pair(1, 2));
  EXPECT_EQ(plan(Algorithms::any, 8), std::pair(1, 4));
  EXPECT_EQ(plan(Algorithms::any, 9), std::pair(2, 6));
  EXPECT_EQ(plan(Algorithms::products, 8), std::pair(3, 8));
}

TEST_F(Miopen, IsGivenAStreamWhenItIsAnotherOne) {
  Convolutions library(Math::fp32, Algorithms::any);
  const auto first = library.plan(shape_of(10, true)), second = library.plan(shape_of(11, true));
  std::vector<float> memory(1000);
  Stream stream, other;
  const auto given_for = [&](Stream& of_run, std::size_t plan) {
    fake().stream = nullptr;
    library.run(of_run, plan, memory.data(), memory.data(), memory.data() + 500, nullptr);
    return fake().stream;
  };
  EXPECT_EQ(given_for(stream, first), stream.native_handle());
  EXPECT_EQ(given_for(stream, second), nullptr);
  EXPECT_EQ(given_for(other, first), other.native_handle());
  EXPECT_EQ(given_for(stream, first), stream.native_handle());
  fake().fails = "miopenSetStream";
  fake().status = 7;
  EXPECT_THROW(given_for(other, first), Error);
  fake().fails = "";
  EXPECT_EQ(given_for(other, first), other.native_handle());
}

TEST_F(Miopen, ErrorsAreOfTheirKind) {
  expect_errors(shape_of(4, true),
                {{3, ErrorKind::failure},
                 {4, ErrorKind::out_of_memory},
                 {6, ErrorKind::unsupported},
                 {7, ErrorKind::failure},
                 {8, ErrorKind::unsupported}},
                {"miopenCreate", "miopenCreateTensorDescriptor", "miopenCreateConvolutionDescriptor",
                 "miopenSet4dTensorDescriptor", "miopenInitConvolutionDescriptor", "miopenSetConvolutionAttribute",
                 "miopenCreateConvProblem", "miopenSetProblemTensorDescriptor", "miopenCreateFindOptions",
                 "miopenSetFindOptionWorkspaceLimit", "miopenFindSolutions", "miopenGetSolutionTime",
                 "miopenGetSolutionWorkspaceSize", "miopenGetSolutionSolverId", "miopenGetSolverIdConvAlgorithm"},
                {"miopenSetStream", "miopenConvolutionForwardImmediate"});
  fake().fails = "miopenConvolutionForwardCompileSolution";
  const auto error = error_of([] { Convolutions(Math::fp32, Algorithms::any).plan(shape_of(4, true)); });
  expect_mentions(error, {"convolutions_plan", "miopenConvolutionForwardCompileSolution"});
}

TEST_F(Miopen, Tf32IsRefused) {
  const auto error = error_of([] { Convolutions(Math::tf32, Algorithms::any); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  expect_mentions(error, {"convolutions_create", "MIOpen does not report", "fp32"});
}

TEST_F(Miopen, VersionsAreOfThreeNumbers) {
  const Convolutions library(Math::fp32, Algorithms::any);
  EXPECT_EQ(library.version(), "MIOpen 3.5.1");
  fake().fails = "miopenGetVersion";
  fake().status = 7;
  expect_mentions(error_of([&] { static_cast<void>(library.version()); }), {"miopenGetVersion", "status 7"});
}

}  // namespace
}  // namespace isthmus::device
