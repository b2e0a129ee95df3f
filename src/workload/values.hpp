#pragma once

// Values of inputs: every element is a function of (seed, stream, index) and can be computed on any thread, in any
// order.

#include <cstddef>
#include <cstdint>

namespace isthmus::workload {

/// Returns the splitmix64 finaliser of seed, stream and index: a counter-based generator.
constexpr std::uint64_t hash(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  std::uint64_t z = index + 0x9e3779b97f4a7c15ULL * (seed + 1) + 0xd1b54a32d192ed03ULL * (stream + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Generator of uniform floats in [low, high), which are exact multiples of (high-low)/2^24.
struct Uniform {
  std::uint64_t seed, stream;
  float low, high;
  float operator()(std::size_t index) const {
    return low + (high - low) * static_cast<float>(hash(seed, stream, index) >> 40) * 0x1p-24f;
  }
};
inline Uniform uniform(std::uint64_t seed, std::uint64_t stream, float low, float high) {
  return {seed, stream, low, high};
}

}  // namespace isthmus::workload
