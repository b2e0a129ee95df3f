#pragma once

// Which bin each update goes to, and how many each must have got.
//
// Update k goes to the k-th bin of a pseudo-random order of all bins, over and over. So a run of updates hits each bin
// as often as any other, but for one, and what must be in a bin follows from the runs alone, however many bins and
// however many updates there are.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::atomics {

/// An order of 2^bits bins. Called by kernels and by the host.
struct Order {
  unsigned bits = 0;
  std::uint64_t seed = 0;

  constexpr std::uint64_t mask() const { return (std::uint64_t{1} << bits) - 1; }
  constexpr std::uint64_t bin(std::uint64_t k) const {
    std::uint64_t x = k * kFirst & mask();
    x ^= x >> shift();
    return x * kSecond & mask();
  }
  /// Where in the order a bin comes: each step of bin() undone.
  constexpr std::uint64_t place(std::uint64_t bin) const {
    std::uint64_t x = bin * inverse(kSecond) & mask();
    x ^= x >> shift();  // its own inverse, as it moves half of the bits at least
    return x * inverse(kFirst) & mask();
  }
  /// Where the run of a thread, or of a block, begins.
  constexpr std::uint64_t start(std::uint64_t run) const { return workload::hash(seed, 7, run) & mask(); }

 private:
  static constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15ULL, kSecond = 0xd1b54a32d192ed03ULL;  // odd
  constexpr unsigned shift() const { return (bits + 2) / 2; }
  /// Of an odd factor, modulo 2^64 (Newton: each step doubles the bits that are right).
  static constexpr std::uint64_t inverse(std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  }
};

/// A run of updates: `count` of them from `start` on.
struct Run {
  std::uint64_t start = 0, count = 0;
};

/// What the bins must hold after some runs.
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
  std::vector<std::uint64_t> from_, counts_;  // counts_[i] holds for places from_[i] to from_[i + 1]
};

/// Bins that do not hold what they must, and one more where their sum is not that of all updates. T is the bins' type;
/// `first` is the number of the first of these bins.
template <class T>
struct Comparison {
  std::size_t wrong = 0;
  double sum = 0;
};
template <class T>
Comparison<T> compare(const Expected& expected, const T* bins, std::uint64_t first, std::size_t count);

}  // namespace isthmus::microbench::atomics
