#include "microbench/chain.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "device/api/device.hpp"
#include "memory/parallel.hpp"

namespace isthmus::microbench {

namespace {

std::size_t checked(std::size_t slots) {
  if (slots < 2 || slots - 1 > std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument("a chain must have 2 to 2^32 places");
  return slots;
}

}  // namespace

Chain::Chain(std::size_t slots, std::uint64_t seed) : next_(checked(slots)) {
  // Order of the places, beginning with place 0; the other places are shuffled by the Fisher-Yates method.
  std::vector<std::uint32_t> order(slots);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  for (std::size_t i = slots - 1; i > 1; --i) std::swap(order[i], order[1 + workload::hash(seed, 1, i) % i]);
  for (std::size_t i = 0; i + 1 < slots; ++i) next_[order[i]] = order[i + 1];
  next_[order.back()] = order.front();
  for (std::size_t i = 0; i < slots; i += kApart) milestones_.push_back(order[i]);
}

std::size_t Chain::end(std::size_t hops) const {
  hops %= slots();
  std::size_t at = milestones_[hops / kApart];
  for (std::size_t hop = 0; hop < hops % kApart; ++hop) at = next_[at];
  return at;
}

void Chain::write(std::uint64_t* to, std::size_t step) const {
  for (std::size_t i = 0; i < slots(); ++i) to[i * step] = next_[i];
}

void write_links(const Chain& chain, const Places& places, std::byte* to, bool host_reaches, std::uint64_t base) {
  constexpr std::size_t kGrain = std::size_t{1} << 16;    // minimum places per thread
  constexpr std::size_t kBounce = std::size_t{16} << 20;  // bytes copied through the host at a time
  const auto write = [&](std::byte* begin, std::size_t first, std::size_t last) {
    memory::parallel_for(last - first, kGrain, [&](std::size_t from, std::size_t until) {
      for (std::size_t i = first + from; i < first + until; ++i) {
        const std::uint64_t link = base + places.offset(chain.next(i));
        std::memcpy(begin + (places.offset(i) - first * places.stride), &link, sizeof link);
      }
    });
  };
  if (host_reaches) return write(to, 0, chain.slots());
  const std::size_t at_once = std::clamp<std::size_t>(kBounce / places.stride, 1, chain.slots());
  std::vector<std::byte> bounce(at_once * places.stride);
  for (std::size_t first = 0; first < chain.slots(); first += at_once) {
    const std::size_t last = std::min(first + at_once, chain.slots());
    write(bounce.data(), first, last);
    device::copy(to + first * places.stride, bounce.data(), (last - first) * places.stride);
  }
}

}  // namespace isthmus::microbench
