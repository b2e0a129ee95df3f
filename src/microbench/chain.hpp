#pragma once

// Pointer chasing: places of memory in one random cycle, each telling where the next one lies, so that no access can
// begin before the last one has ended and no prefetcher guesses it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench {

/// A single cycle through `slots` places, every order as likely as any other; it follows from the seed.
class Chain {
 public:
  /// At least two places and at most 2^32.
  Chain(std::size_t slots, std::uint64_t seed);
  /// What building one takes at most, for Case::needs().
  static std::size_t bytes_needed(std::size_t slots) { return 2 * sizeof(std::uint32_t) * slots; }

  std::size_t slots() const { return next_.size(); }
  std::size_t next(std::size_t place) const { return next_[place]; }
  /// Where `hops` hops from place 0 end.
  std::size_t end(std::size_t hops) const;
  /// The chain as indices, a place every `step` words, written where the host reaches it.
  void write(std::uint64_t* to, std::size_t step) const;

 private:
  static constexpr std::size_t kApart = 4096;  // hops from milestone to milestone
  std::vector<std::uint32_t> next_, milestones_;
};

/// Where the places of a chain lie in memory: one in each `stride` bytes, on a line of its own, which is any of the
/// lines there: were it always the first, a large stride would use few sets of a cache.
struct Places {
  std::size_t stride = 64, line = 64;
  std::uint64_t seed = 0;

  std::size_t offset(std::size_t place) const {
    const std::size_t lines = stride / line;
    return place * stride + (lines > 1 ? workload::hash(seed, 2, place) % lines * line : 0);
  }
};

/// Writes the chain as addresses: the place at `to + places.offset(i)` holds `base + places.offset(next(i))`, where
/// `base` is how the reader calls `to`. Other bytes are left alone where the host reaches `to`, and zeroed where it
/// only reaches it by copies.
void write_links(const Chain& chain, const Places& places, std::byte* to, bool host_reaches, std::uint64_t base);

/// Of a metric in seconds of one access of a chain, and the like.
inline constexpr const char* kLatencyUnbounded = "latency has no known bound";

}  // namespace isthmus::microbench
