#pragma once

// Software BulkBarrier and bulk_copy() for chips without a bulk-copy engine. Included by the kernel headers.

#include <cstdint>

namespace isthmus::device::detail {

/// Barrier in one 64-bit word of shared memory, changed by compare-and-swap only:
/// bits 0–31 bytes still expected (signed: copies may come before expect()), 32–46 arrivals still missing,
/// 48–62 arrivals per phase, 63 parity of the current phase.
class SoftwareBulkBarrier {
 public:
  __device__ void init(unsigned arrivals) {
    state_ = static_cast<unsigned long long>(arrivals) << 48 | static_cast<unsigned long long>(arrivals) << 32;
    __threadfence_block();
  }
  __device__ void expect(unsigned bytes) { update(1, static_cast<int>(bytes)); }
  __device__ void deliver(unsigned bytes) { update(0, -static_cast<int>(bytes)); }
  __device__ void wait(unsigned parity) {
    while ((*static_cast<volatile unsigned long long*>(&state_) >> 63) == (parity & 1u)) {
    }
    __threadfence_block();
  }

 private:
  __device__ void update(unsigned arrived, int bytes) {
    __threadfence_block();  // make earlier copies visible to every thread that sees the phase end
    unsigned long long seen = *static_cast<volatile unsigned long long*>(&state_);
    for (;;) {
      const auto missing_bytes = static_cast<unsigned>(seen) + static_cast<unsigned>(bytes);
      const auto missing_arrivals = static_cast<unsigned>(seen >> 32 & 0x7fffu) - arrived;
      const unsigned long long all_arrivals = seen >> 48 & 0x7fffu;
      unsigned long long next = (seen & 1ull << 63) | all_arrivals << 48;
      if (missing_bytes == 0 && missing_arrivals == 0) {
        next = (next ^ 1ull << 63) | all_arrivals << 32;
      } else {
        next |= static_cast<unsigned long long>(missing_arrivals) << 32 | missing_bytes;
      }
      const unsigned long long found = atomicCAS(&state_, seen, next);
      if (found == seen) return;
      seen = found;
    }
  }
  unsigned long long state_;
};

__device__ inline void copy_by_this_thread(void* shared, const void* global, unsigned bytes) {
  auto* to = static_cast<uint4*>(shared);
  const auto* from = static_cast<const uint4*>(global);
  // Not unrolled, because unrolling would use 16 registers that surrounding kernels need; several of our kernels would
  // then spill on sm_80.
#pragma unroll 1
  for (unsigned i = 0; i < bytes / 16; ++i) to[i] = from[i];
}

}  // namespace isthmus::device::detail
