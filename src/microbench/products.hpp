#pragma once

// Expected elements of a matrix-matrix or matrix-vector product, and the tolerance of fp32.

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace isthmus::microbench {

/// Returns element [row, column] of C[m × n] = A[m × k] · B[k × n], in double. `a` and `b` return an element by its
/// index.
template <class A, class B>
double gemm_element(std::size_t row, std::size_t column, std::size_t n, std::size_t k, const A& a, const B& b) {
  double sum = 0;
  for (std::size_t l = 0; l < k; ++l) sum += double{a(row * k + l)} * b(l * n + column);
  return sum;
}
/// Returns the tolerance of a sum of k products added one after the other. The sums have a standard deviation that
/// grows as sqrt(k)/3. The tolerance allows k roundings, each of 2^-24 times ten such deviations. Correct sums pass
/// with room to spare; a sum with one wrong product does not pass.
inline double gemm_tolerance(std::size_t k) {
  return static_cast<double>(k) * 0x1p-24 * (2 + 10 * std::sqrt(static_cast<double>(k)) / 3);
}

/// Returns element `row` of y[rows] = A[rows × cols] · x[cols], in double.
template <class A, class X>
double gemv_element(std::size_t row, std::size_t cols, const A& a, const X& x) {
  double sum = 0;
  for (std::size_t j = 0; j < cols; ++j) sum += double{a(row * cols + j)} * x(j);
  return sum;
}
/// Returns the tolerance of a sum in which each thread adds cols/threads products one after the other, and the block
/// then adds the threads' sums in a tree. Each addition rounds by at most 2^-23 of the sum of |a·x|, which is 1/4 per
/// product on average, and never twice that over thousands of products.
inline double gemv_tolerance(std::size_t cols, std::size_t threads = 256) {
  const std::size_t products = (cols + 4 * threads - 1) / (4 * threads);
  const double roundings = 8 + 4 * static_cast<double>(products) + std::log2(threads);
  return roundings * 0x1p-23 * std::min(static_cast<double>(cols), 64 + 0.5 * static_cast<double>(cols));
}

}  // namespace isthmus::microbench
