#pragma once

// Pointer chasing: places in memory form one random cycle, and each contains the address of the next. So an access
// cannot begin before the previous one has ended, and a prefetcher cannot guess its address.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench {

/// Single random cycle through `slots` places, determined by the seed. Every order is equally likely.
class Chain {
 public:
  /// Throws std::invalid_argument unless `slots` is 2 to 2^32.
  Chain(std::size_t slots, std::uint64_t seed);
  /// Returns the maximum bytes needed to build a chain, for Case::needs().
  static std::size_t bytes_needed(std::size_t slots) { return 2 * sizeof(std::uint32_t) * slots; }

  std::size_t slots() const { return next_.size(); }
  std::size_t next(std::size_t place) const { return next_[place]; }
  /// Returns the place that is reached after `hops` hops from place 0.
  std::size_t end(std::size_t hops) const;
  /// Writes the chain as indices, one place every `step` words. The host must be able to access `to`.
  void write(std::uint64_t* to, std::size_t step) const;

 private:
  static constexpr std::size_t kApart = 4096;  // hops between milestones
  std::vector<std::uint32_t> next_, milestones_;
};

/// Positions of a chain's places in memory: one per `stride` bytes, on a randomly chosen cache line of these bytes. If
/// it were always on the first line, a large stride would use only a few sets of a cache.
struct Places {
  std::size_t stride = 64, line = 64;
  std::uint64_t seed = 0;

  std::size_t offset(std::size_t place) const {
    const std::size_t lines = stride / line;
    return place * stride + (lines > 1 ? workload::hash(seed, 2, place) % lines * line : 0);
  }
};

/// Writes the chain as addresses: the place at `to + places.offset(i)` contains `base + places.offset(next(i))`, where
/// `base` is the reader's address of `to`. Other bytes stay unchanged if the host can access `to`, and are zeroed if it
/// can only copy to it.
void write_links(const Chain& chain, const Places& places, std::byte* to, bool host_reaches, std::uint64_t base);

/// Reason why latencies, such as seconds per access of a chain, have no limit.
inline constexpr const char* kLatencyUnbounded = "latency has no known bound";

}  // namespace isthmus::microbench
