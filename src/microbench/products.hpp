#pragma once

// What an element of a product of matrices should be, and how far fp32 may be off.

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

}  // namespace isthmus::microbench
