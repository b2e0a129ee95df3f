#pragma once

// Bin of each update, and the number of updates that each bin must have received.
//
// Update k goes to bin k of a pseudo-random order of all bins, which repeats. So a run of updates hits all bins equally
// often, give or take one, and the expected content of a bin can be computed from the runs alone, however many bins and
// updates there are.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::atomics {

/// Pseudo-random order of 2^bits bins, for use by kernels and by the host.
struct Order {
  unsigned bits = 0;
  std::uint64_t seed = 0;

  constexpr std::uint64_t mask() const { return (std::uint64_t{1} << bits) - 1; }
  constexpr std::uint64_t bin(std::uint64_t k) const {
    std::uint64_t x = k * kFirst & mask();
    x ^= x >> shift();
    return x * kSecond & mask();
  }
  /// Returns the position of a bin in the order, by inverting the steps of bin().
  constexpr std::uint64_t place(std::uint64_t bin) const {
    std::uint64_t x = bin * inverse(kSecond) & mask();
    x ^= x >> shift();  // its own inverse, because it shifts by at least half of the bits
    return x * inverse(kFirst) & mask();
  }
  /// Returns the position at which the run of a thread or of a block begins.
  constexpr std::uint64_t start(std::uint64_t run) const { return workload::hash(seed, 7, run) & mask(); }

 private:
  static constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15ULL, kSecond = 0xd1b54a32d192ed03ULL;  // odd
  constexpr unsigned shift() const { return (bits + 2) / 2; }
  /// Returns the inverse of an odd factor modulo 2^64 (Newton: each step doubles the number of correct bits).
  static constexpr std::uint64_t inverse(std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  }
};

/// Run of `count` updates, beginning at position `start` of the order.
struct Run {
  std::uint64_t start = 0, count = 0;
};

/// Expected content of the bins after some runs.
class Expected {
 public:
  Expected(const Order& order, const std::vector<Run>& runs);
  std::uint64_t of_bin(std::uint64_t bin) const { return of_place(order_.place(bin)); }
  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t most() const noexcept;

 private:
  std::uint64_t of_place(std::uint64_t place) const;

  Order order_;
  std::uint64_t total_ = 0;
  std::vector<std::uint64_t> from_, counts_;  // counts_[i] applies to positions from_[i] to from_[i + 1]
};

/// Number of bins with wrong contents, and sum of the contents of all bins. T is the type of a bin.
template <class T>
struct Comparison {
  std::size_t wrong = 0;
  double sum = 0;
};
/// Compares `count` bins with their expected contents. `first` is the index of the first of `bins` among all bins.
template <class T>
Comparison<T> compare(const Expected& expected, const T* bins, std::uint64_t first, std::size_t count);

}  // namespace isthmus::microbench::atomics
