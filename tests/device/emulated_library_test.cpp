// Tests of the errors that the emulator finds in calls of Blas, Fft and Convolutions.

#include "device/api/libraries.hpp"
#include "emulator_fixture.hpp"

namespace isthmus::device {
namespace {

using EmulatedLibraryTest = EmulatorTest;

__global__ void set_all(float* values, float to) {
  values[threadIdx.x] = to;
}

TEST_F(EmulatedLibraryTest, CallsKeepToTheOrderOfTheStream) {
  DeviceArray<float> a(4), b(4), c(4);
  Blas blas;
  Stream stream;
  for (DeviceArray<float>* factor : {&a, &b}) {
    launch(stream, ISTHMUS_KERNEL(set_all), {.grid = 1, .block = 4}, factor->get(), 2.0f);
  }
  blas.sgemm(stream, 2, 2, 2, a.get(), 2, b.get(), 2, c.get(), 2);
  launch(stream, ISTHMUS_KERNEL(set_all), {.grid = 1, .block = 4}, a.get(), 0.0f);
  stream.synchronize();
  EXPECT_EQ(c.host(), std::vector<float>(4, 8.0f));
}

TEST_F(EmulatedLibraryTest, NothingHappensBeforeItIsAskedFor) {
  configure("grace=60");
  DeviceArray<float> a(std::vector<float>{1, 0, 0, 1}), c(std::vector<float>{5, 5, 5, 5});
  Blas blas;
  Stream stream;
  blas.sgemm(stream, 2, 2, 2, a.get(), 2, a.get(), 2, c.get(), 2);
  EXPECT_EQ(c.host()[0], 5.0f);
  stream.synchronize();
  EXPECT_EQ(c.host()[0], 1.0f);
}

TEST_F(EmulatedLibraryTest, WhatNobodyWroteIsNoNumber) {
  DeviceArray<float> a(4), b(std::vector<float>{1, 2, 3, 4}), c(4);
  Blas blas;
  Stream stream;
  blas.sgemm(stream, 2, 2, 2, a.get(), 2, b.get(), 2, c.get(), 2);
  stream.synchronize();
  EXPECT_NE(c.host()[0], c.host()[0]);
}

TEST_F(EmulatedLibraryTest, HostMemoryAndShortMemoryAreRefused) {
  DeviceArray<float> a(16);
  std::vector<float> host(16);
  Blas blas;
  Stream stream;
  expect_mentions(error_of([&] { blas.sgemm(stream, 4, 4, 4, host.data(), 4, a.get(), 4, a.get(), 4); }),
                  {"blas_sgemm", "A", "pageable host memory"});
  expect_mentions(error_of([&] { blas.sgemv(stream, 4, 5, a.get(), 5, a.get(), a.get()); }), {"blas_sgemv", "A", "80"});
  Fft fft(16);
  expect_mentions(error_of([&] { fft.set_workspace(a.get()); }), {"fft_set_workspace", "workspace", "128"});
}

TEST_F(EmulatedLibraryTest, MemoryFreedBeforeTheCallRunsIsAFault) {
  configure("grace=60");
  Stream stream, other;
  auto* a = static_cast<float*>(malloc_pooled(64, other));
  other.synchronize();
  DeviceArray<float> x(std::vector<float>(4, 1.0f)), y(4);
  Blas blas;
  blas.sgemv(stream, 4, 4, a, 4, x.get(), y.get());
  free_pooled(a, other);
  other.synchronize();
  expect_mentions(error_of([&] { stream.synchronize(); }), {"queued blas_sgemv failed", "A"});
}

TEST_F(EmulatedLibraryTest, AnOutputThatOverlapsAnInputIsRefused) {
  DeviceArray<float> all(std::vector<float>(64, 1.0f));
  float* p = all.get();
  Blas blas;
  Stream stream;
  expect_mentions(error_of([&] { blas.sgemm(stream, 4, 4, 4, p, 4, p + 16, 4, p + 16, 4); }), {"B overlaps C"});
  // C is the lower right block of an 8×8 matrix: it shares rows with A and columns with B, but no element with either.
  EXPECT_EQ(error_of([&] { blas.sgemm(stream, 4, 4, 4, p + 32, 8, p + 4, 8, p + 36, 8); }), "");
  expect_mentions(error_of([&] { blas.sgemm(stream, 4, 4, 4, p + 32, 8, p + 4, 8, p + 35, 8); }), {"A overlaps C"});
  expect_mentions(error_of([&] { blas.sgemm(stream, 4, 4, 4, p + 32, 8, p + 4, 8, p + 28, 8); }), {"B overlaps C"});
  Fft fft(8);
  DeviceArray<std::complex<float>> workspace(8), data(std::vector<std::complex<float>>(16));
  fft.set_workspace(workspace.get());
  expect_mentions(error_of([&] { fft.run(stream, data.get(), data.get() + 4, Fft::Direction::forward); }),
                  {"fft_run", "the input overlaps the output"});
  EXPECT_EQ(error_of([&] { fft.run(stream, data.get(), data.get() + 8, Fft::Direction::forward); }), "");
  expect_mentions(error_of([&] { fft.run(stream, workspace.get(), data.get(), Fft::Direction::forward); }),
                  {"the input overlaps the workspace"});
}

TEST_F(EmulatedLibraryTest, WhatIsKeptInTheWorkspaceIsLost) {
  Fft fft(4);
  DeviceArray<std::complex<float>> workspace(std::vector<std::complex<float>>(4)),
      data(std::vector<std::complex<float>>(4));
  fft.set_workspace(workspace.get());
  Stream stream;
  fft.run(stream, data.get(), data.get(), Fft::Direction::inverse);
  stream.synchronize();
  EXPECT_NE(workspace.host()[0], workspace.host()[0]);
}

TEST_F(EmulatedLibraryTest, ConvolutionsAreLookedAtAsCopiesAre) {
  Convolutions library(Convolutions::Math::fp32, Convolutions::Algorithms::products);
  // Two images, each with two planes of two numbers, and one filter. The planes of the images are interleaved.
  const auto plan = library.plan({.images = 2,
                                  .channels = 2,
                                  .height = 1,
                                  .width = 2,
                                  .in_image = 2,
                                  .in_channel = 4,
                                  .out_image = 2,
                                  .out_channel = 4});
  DeviceArray<float> in(std::vector<float>{1, 2, 3, 4, 10, 20, 30, 40}), filter(std::vector<float>{1, 2}),
      out(std::vector<float>(4)), workspace(std::vector<float>(1)), half(4);
  std::vector<float> host(8);
  Stream stream;
  const auto run = [&](const float* from, const float* by, float* to, void* work) {
    return error_of([&] { library.run(stream, plan, from, by, to, work); });
  };
  EXPECT_EQ(run(in.get(), filter.get(), out.get(), workspace.get()), "");
  stream.synchronize();
  EXPECT_EQ(out.host(), (std::vector<float>{21, 42, 63, 84}));
  EXPECT_NE(workspace.host()[0], workspace.host()[0]);
  expect_mentions(run(host.data(), filter.get(), out.get(), workspace.get()), {"convolutions_run", "the input"});
  expect_mentions(run(half.get(), filter.get(), out.get(), workspace.get()), {"the input", "32"});
  expect_mentions(run(in.get(), filter.get(), in.get() + 4, workspace.get()), {"the input overlaps the output"});
  expect_mentions(run(in.get(), filter.get(), out.get(), filter.get()), {"the filters overlaps the workspace"});
  expect_mentions(run(in.get(), filter.get(), out.get(), nullptr), {"convolutions_run", "4 bytes of workspace"});
}

TEST_F(EmulatedLibraryTest, RoundedFactorsAreTheNearestOfElevenBits) {
  Convolutions library(Convolutions::Math::tf32, Convolutions::Algorithms::products);
  const auto plan = library.plan({.width = 6, .in_image = 6, .in_channel = 6, .out_image = 6, .out_channel = 6});
  constexpr float last = 0x1p-10f;
  DeviceArray<float> in(std::vector<float>{1 + last, 1 + 0.5f * last, 1 + 1.5f * last, 1 + 0.501f * last,
                                           -1 - 0.499f * last, 2 - 0.1f * last}),
      filter(std::vector<float>{1 + 0.25f * last}), out(std::vector<float>(6)), workspace(std::vector<float>(1));
  Stream stream;
  library.run(stream, plan, in.get(), filter.get(), out.get(), workspace.get());
  stream.synchronize();
  EXPECT_EQ(out.host(), (std::vector<float>{1 + last, 1, 1 + 2 * last, 1 + last, -1, 2}));
}

TEST_F(EmulatedLibraryTest, ALibraryKeepsToItsDevice) {
  configure("devices=2");
  Blas blas;
  DeviceArray<float> a(std::vector<float>(4, 1.0f)), y(2);
  const Selected second(1);
  Stream stream;
  expect_mentions(error_of([&] { blas.sgemv(stream, 2, 2, a.get(), 2, a.get(), y.get()); }),
                  {"the library belongs to device 0", "the stream to device 1"});
}

}  // namespace
}  // namespace isthmus::device
