#pragma once

// Whole numbers as inputs: their products and sums are exact in fp32, in any order, as long as they stay below 2^24.

#include "workload/values.hpp"

namespace isthmus::apps {

/// Signed whole numbers of `bits` bits: from -2^(bits - 1) to 2^(bits - 1) - 1.
struct WholeNumbers {
  std::uint64_t seed, stream;
  int bits;
  float operator()(std::size_t i) const {
    return static_cast<float>(static_cast<int>(workload::hash(seed, stream, i) >> (64 - bits)) - (1 << (bits - 1)));
  }
};

/// Random numbers out of -3, -1, 1 and 3. None is 0, so that a missing one changes a sum.
struct OddNumbers {
  std::uint64_t seed, stream;
  float operator()(std::size_t i) const { return 2 * WholeNumbers{seed, stream, 2}(i) + 1; }
};

}  // namespace isthmus::apps
