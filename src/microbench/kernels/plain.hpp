#pragma once

// The kernels of four workloads for others to queue: staging none, 256 threads a block, as many blocks as there is
// work. Matrices are row-major, of floats, with rows that begin `pitch` elements apart (workload::row_pitch). And what
// one element of the result should be: inputs are functions of an element's number, counted without padding.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "device/kernel.hpp"
#include "microbench/products.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

/// y[rows] = A[rows × cols] · x[cols].
void queue_gemv(device::Stream& stream, const float* a, std::size_t pitch, const float* x, float* y, std::size_t rows,
                std::size_t cols);
/// C[m × n] = A[m × k] · B[k × n].
void queue_gemm(device::Stream& stream, const float* a, const float* b, float* c, std::size_t m, std::size_t n,
                std::size_t k);
/// y = kSaxpyFactor · x + y, once.
inline constexpr float kSaxpyFactor = 0.3125f;
void queue_saxpy(device::Stream& stream, const float* x, float* y, std::size_t n);
/// 3 × 3 convolution with constant coefficients, zero outside the grid.
void queue_conv2d(device::Stream& stream, const float* in, float* out, std::size_t rows, std::size_t cols);

template <class A, class X>
double gemv_element(std::size_t row, std::size_t cols, const A& a, const X& x) {
  double sum = 0;
  for (std::size_t j = 0; j < cols; ++j) sum += double{a(row * cols + j)} * x(j);
  return sum;
}
/// A thread adds cols/threads products one after the other, then the block adds in a tree: so many roundings of at most
/// the sum of |a·x|, 1/4 a product on average and never twice that over thousands.
inline double gemv_tolerance(std::size_t cols, std::size_t threads = 256) {
  const std::size_t products = (cols + 4 * threads - 1) / (4 * threads);
  const double roundings = 8 + 4 * static_cast<double>(products) + std::log2(threads);
  return roundings * 0x1p-23 * std::min(static_cast<double>(cols), 64 + 0.5 * static_cast<double>(cols));
}

/// Each step rounds once or twice, by at most 2^-23 of the largest value so far, 1 + k·a.
constexpr double saxpy_tolerance(unsigned iterations = 1) {
  return iterations * 0x1p-23 * (1 + iterations * double{kSaxpyFactor});
}

double conv2d_element(std::size_t row, std::size_t column, std::size_t rows, std::size_t cols,
                      const std::function<float(std::size_t)>& in);
/// Nine products and their sum: at most ten roundings of at most the sum of the coefficients' magnitudes.
inline constexpr double kConv2dTolerance = 10 * 0x1p-24 * 4.5;

}  // namespace isthmus::microbench
