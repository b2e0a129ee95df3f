#include "microbench/latency/follow.hpp"

namespace isthmus::microbench::latency {

namespace {

// Unroll factor, large enough that the loop's own work, which overlaps the wait for a load, is invisible even in a
// first-level cache.
constexpr std::size_t kUnrolled = 128;

}  // namespace

// for (hop = 0; hop < hops; ++hop) from = *from;
#if defined(__clang__)
__attribute__((noinline, no_sanitize("address", "undefined", "thread")))
#else
__attribute__((noinline, no_sanitize_address, no_sanitize_undefined, no_sanitize_thread))
#endif
std::uint64_t
follow(std::uint64_t from, std::size_t hops) {
  const auto* place = reinterpret_cast<const std::uint64_t*>(from);
  for (; hops >= kUnrolled; hops -= kUnrolled) {
#pragma GCC unroll 128
    for (std::size_t i = 0; i < kUnrolled; ++i) place = reinterpret_cast<const std::uint64_t*>(*place);
  }
  for (; hops > 0; --hops) place = reinterpret_cast<const std::uint64_t*>(*place);
  return reinterpret_cast<std::uint64_t>(place);
}

}  // namespace isthmus::microbench::latency
