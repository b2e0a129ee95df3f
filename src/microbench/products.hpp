#pragma once

// What an element of a product of matrices or of a matrix and a vector should be, and how far fp32 may be off.

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace isthmus::microbench {

/// Of C[m × n] = A[m × k] · B[k × n], in double; a and b give an element by its number.
template <class A, class B>
double gemm_element(std::size_t row, std::size_t column, std::size_t n, std::size_t k, const A& a, const B& b) {
  double sum = 0;
  for (std::size_t l = 0; l < k; ++l) sum += double{a(row * k + l)} * b(l * n + column);
  return sum;
}
/// k products added one after the other: k roundings of sums whose standard deviation grows as sqrt(k)/3, so that k
/// roundings of 2^-24 of ten such deviations hold with room to spare, and one wrong product of k does not.
inline double gemm_tolerance(std::size_t k) {
  return static_cast<double>(k) * 0x1p-24 * (2 + 10 * std::sqrt(static_cast<double>(k)) / 3);
}

/// Of y[rows] = A[rows × cols] · x[cols].
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

}  // namespace isthmus::microbench
