// What the emulator finds in calls of Blas and Fft.

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
  // Blocks of an 8×8 matrix: the lower right one shares a row with one factor, a column with the other, no element.
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
