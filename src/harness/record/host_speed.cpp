#include "harness/record/host_speed.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "memory/host_cache.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

namespace {

using workload::now;

constexpr std::size_t block_bytes = std::size_t{1} << 22, piece_bytes = std::size_t{1} << 18;

double rate_of(double amount, double begin, double end) {
  return end > begin ? amount / (end - begin) : 0;
}

// Each rate is the best of several attempts, because other work on the host only makes a rate smaller.

double integer_rate() {
  constexpr int steps = 1 << 18, operations = 6, goes = 8;
  volatile std::uint64_t state = 88172645463325252;  // prevents the compiler from computing the result
  double best = 0;
  for (int go = 0; go < goes; ++go) {
    const double begin = now();
    std::uint64_t x = state;
    for (int i = 0; i < steps; ++i) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
    }
    state = x;
    best = std::max(best, rate_of(double{steps} * operations, begin, now()));
  }
  return best;
}

double touch_rate(std::byte* memory) {
  double best = 0;
  for (std::size_t at = 0; at < 2 * block_bytes; at += piece_bytes) {
    const double begin = now();
    std::memset(memory + at, 1, piece_bytes);
    best = std::max(best, rate_of(static_cast<double>(piece_bytes), begin, now()));
  }
  return best;
}

double copy_rate(std::byte* from, std::byte* to) {
  constexpr int goes = 8;
  double best = 0;
  for (int go = 0; go < goes; ++go) {
    memory::flush_host_caches(from, block_bytes);
    memory::flush_host_caches(to, block_bytes);
    const double begin = now();
    std::memcpy(to, from, block_bytes);
    asm volatile("" : : "r"(to) : "memory");  // keeps the compiler from removing a copy that nobody reads
    best = std::max(best, rate_of(static_cast<double>(block_bytes), begin, now()));
  }
  return best;
}

/// Measures the rates that concern memory. The memory is from mmap() rather than malloc(), because freeing a large
/// block changes malloc()'s thresholds, which workloads measure.
void probe_memory(HostSpeed& speed) {
  void* mapped = mmap(nullptr, 2 * block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  auto* block = static_cast<std::byte*>(mapped);
  speed.touch_rate = touch_rate(block);
  speed.copy_rate = copy_rate(block, block + block_bytes);
  munmap(mapped, 2 * block_bytes);
}

HostSpeed probe() {
  HostSpeed speed;
  speed.integer_rate = integer_rate();
  probe_memory(speed);
  return speed;
}

}  // namespace

const HostSpeed& host_speed() {
  static const HostSpeed speed = probe();
  return speed;
}

}  // namespace isthmus::harness
