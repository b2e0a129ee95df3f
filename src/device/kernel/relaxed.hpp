#pragma once

// Reads and writes of memory that other threads of the same launch access at the same time.

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

#if defined(ISTHMUS_BACKEND_CUDA) || defined(ISTHMUS_BACKEND_HIP)

/// Returns a value that other threads may be changing with atomics: any value that the memory has had, without ordering
/// of other memory. Useful for a check before an atomic that might have no effect.
template <class T>
__device__ inline T load_relaxed(const T* address) {
  return *static_cast<const volatile T*>(address);
}

/// Writes a value that other threads read with load_relaxed, without ordering of other memory.
template <class T>
__device__ inline void store_relaxed(T* address, T value) {
  *static_cast<volatile T*>(address) = value;
}

#else

using emulator::load_relaxed;
using emulator::store_relaxed;

#endif

}  // namespace isthmus::device
