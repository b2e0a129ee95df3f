#include <gtest/gtest.h>
#include "device/kernel.hpp"
namespace isthmus::device {
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __syncthreads();
  if (i < n) y[i] += a * x[i];
}
TEST(Smoke, Saxpy) {
  constexpr int n = 1000;
  Stream s;
  auto* x = static_cast<float*>(malloc_device(n * 4));
  auto* y = static_cast<float*>(malloc_device(n * 4));
  std::vector<float> hx(n, 2), hy(n, 1);
  copy_async(x, hx.data(), n * 4, s);
  copy_async(y, hy.data(), n * 4, s);
  launch(s, ISTHMUS_KERNEL(saxpy), {.grid = 4, .block = 256}, n, 3.0f, x, y);
  copy_async(hy.data(), y, n * 4, s);
  s.synchronize();
  for (float v : hy) EXPECT_EQ(v, 7);
  SpinLatch latch;
  latch.hold(s);
  launch(s, ISTHMUS_KERNEL(saxpy), {.grid = 4, .block = 256}, n, 3.0f, x, y);
  EXPECT_FALSE(s.idle());
  latch.release();
  s.synchronize();
  EXPECT_FALSE(latch.timed_out());
  free_device(x);
  free_device(y);
}
}
