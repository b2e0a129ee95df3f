#pragma once

// Kernels of four workloads that other code can queue: staging none, 256 threads per block, as many blocks as there is
// work. Matrices are row-major arrays of float whose rows begin `pitch` elements apart (workload::row_pitch). Functions
// that return an expected element receive the inputs as functions of an element's index, counted without padding.

#include <cstddef>
#include <functional>

#include "device/kernel/kernel.hpp"
#include "microbench/products.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

/// Queues y[rows] = A[rows × cols] · x[cols].
void queue_gemv(device::Stream& stream, const float* a, std::size_t pitch, const float* x, float* y, std::size_t rows,
                std::size_t cols);
/// Queues C[m × n] = A[m × k] · B[k × n].
void queue_gemm(device::Stream& stream, const float* a, const float* b, float* c, std::size_t m, std::size_t n,
                std::size_t k);
/// Factor of x in saxpy.
inline constexpr float kSaxpyFactor = 0.3125f;
/// Queues y = kSaxpyFactor · x + y, once.
void queue_saxpy(device::Stream& stream, const float* x, float* y, std::size_t n);
/// Queues a 3 × 3 convolution with constant coefficients, zero outside the grid.
void queue_conv2d(device::Stream& stream, const float* in, float* out, std::size_t rows, std::size_t cols);

/// Returns the tolerance of saxpy. Each step rounds once or twice, by at most 2^-23 of the largest value so far, which
/// is 1 + k·a after k steps with factor a.
constexpr double saxpy_tolerance(unsigned iterations = 1) {
  return iterations * 0x1p-23 * (1 + iterations * double{kSaxpyFactor});
}

double conv2d_element(std::size_t row, std::size_t column, std::size_t rows, std::size_t cols,
                      const std::function<float(std::size_t)>& in);
/// Tolerance of a 3 × 3 convolution. Nine products and their sum round at most ten times, each time by at most the sum
/// of the coefficients' magnitudes.
inline constexpr double kConv2dTolerance = 10 * 0x1p-24 * 4.5;

}  // namespace isthmus::microbench
