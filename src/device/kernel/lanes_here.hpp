#pragma once

// Set of a warp's lanes that execute the same code together, for functions that any subset of lanes may call, such as
// an operator.

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

/// Returns the mask of the lanes that reached this place together with the calling lane, including it. All of these
/// lanes get the same mask and may immediately do warp operations with it. The set depends on timing, so it may affect
/// only speed, not results. `Place` is a type that is unique to this place, such as that of a lambda.
template <class Place>
__device__ inline LaneMask lanes_here() {
#if defined(ISTHMUS_BACKEND_CUDA)
  return __activemask();
#elif defined(ISTHMUS_BACKEND_HIP)
  return __ballot(1);
#else
  // The set consists of the lanes that arrive before the first of them resumes. All accesses are atomic but relaxed, so
  // lanes do not synchronise with each other here.
  struct Meeting {
    LaneMask open, of[64];
  };
  static thread_local Meeting meetings[1024 / 32];  // one for each warp of the block
  Meeting& mine = meetings[warp_in_block()];
  const LaneMask self = LaneMask{1} << lane();
  __atomic_or_fetch(&mine.open, self, __ATOMIC_RELAXED);
  spin_wait();
  const LaneMask open = __atomic_load_n(&mine.open, __ATOMIC_RELAXED);
  if ((open & self) != 0) {
    for (LaneMask left = open; left != 0; left &= left - 1)
      __atomic_store_n(&mine.of[__builtin_ctzll(left)], open, __ATOMIC_RELAXED);
    __atomic_store_n(&mine.open, LaneMask{0}, __ATOMIC_RELAXED);
  }
  return __atomic_load_n(&mine.of[lane()], __ATOMIC_RELAXED);
#endif
}

}  // namespace isthmus::device
