#pragma once

// The kernels of four workloads for others to queue: staging none, 256 threads a block, as many blocks as there is
// work. Matrices are row-major, of floats, with rows that begin `pitch` elements apart (workload::row_pitch). And what
// one element of the result should be: inputs are functions of an element's number, counted without padding.

#include <cstddef>
#include <functional>

#include "device/kernel/kernel.hpp"
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

/// Each step rounds once or twice, by at most 2^-23 of the largest value so far, 1 + k·a.
constexpr double saxpy_tolerance(unsigned iterations = 1) {
  return iterations * 0x1p-23 * (1 + iterations * double{kSaxpyFactor});
}

double conv2d_element(std::size_t row, std::size_t column, std::size_t rows, std::size_t cols,
                      const std::function<float(std::size_t)>& in);
/// Nine products and their sum: at most ten roundings of at most the sum of the coefficients' magnitudes.
inline constexpr double kConv2dTolerance = 10 * 0x1p-24 * 4.5;

}  // namespace isthmus::microbench
