#pragma once

// Reading and writing what other threads of the same launch look at meanwhile.

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

#if defined(ISTHMUS_BACKEND_CUDA) || defined(ISTHMUS_BACKEND_HIP)

/// A value that atomics of other threads may be changing: some value that it had, in no order with other memory. Good
/// for a look before an atomic that would be in vain.
template <class T>
__device__ inline T load_relaxed(const T* address) {
  return *static_cast<const volatile T*>(address);
}

/// Writes a value that other threads read with load_relaxed, in no order with other memory.
template <class T>
__device__ inline void store_relaxed(T* address, T value) {
  *static_cast<volatile T*>(address) = value;
}

#else

using emulator::load_relaxed;
using emulator::store_relaxed;

#endif

}  // namespace isthmus::device
