#pragma once

// Whole numbers as inputs: products and sums of them are exact in fp32, in any order, as long as these are below 2^24.

#include "workload/values.hpp"

namespace isthmus::apps {

/// Of so many bits, sign and all: from -2^(bits - 1) to 2^(bits - 1) - 1.
struct WholeNumbers {
  std::uint64_t seed, stream;
  int bits;
  float operator()(std::size_t i) const {
    return static_cast<float>(static_cast<int>(workload::hash(seed, stream, i) >> (64 - bits)) - (1 << (bits - 1)));
  }
};

/// -3, -1, 1 or 3: none is 0, so that one that is missed shows.
struct OddNumbers {
  std::uint64_t seed, stream;
  float operator()(std::size_t i) const { return 2 * WholeNumbers{seed, stream, 2}(i) + 1; }
};

}  // namespace isthmus::apps
