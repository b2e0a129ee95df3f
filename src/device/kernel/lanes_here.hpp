#pragma once

// Which lanes of a warp are at one place together, for code that any lanes may call: an operator, say.

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

/// The calling lane and those that came here with it: all of them get the same mask, and may do warp operations with
/// it at once. Who is among them is chance, so nothing but speed may follow from it. `Place` is a type that this place
/// alone names, such as that of a lambda.
template <class Place>
__device__ inline LaneMask lanes_here() {
#if defined(ISTHMUS_BACKEND_CUDA)
  return __activemask();
#elif defined(ISTHMUS_BACKEND_HIP)
  return __ballot(1);
#else
  // Those that come before the first of them is resumed. All accesses are atomic, but order nothing: lanes know no more
  // of each other for having met here.
  struct Meeting {
    LaneMask open, of[64];
  };
  static thread_local Meeting meetings[1024 / 32];  // of each warp of the block
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
