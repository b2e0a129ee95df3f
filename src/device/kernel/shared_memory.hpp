#pragma once

// Guarantees that kernels may rely on without knowing the device.

#include <cstddef>

namespace isthmus::device {

/// Shared memory per multiprocessor, in bytes, that every GPU supported by this backend has.
#if defined(ISTHMUS_BACKEND_HIP)
inline constexpr std::size_t least_shared_bytes = 64 << 10;
#else
inline constexpr std::size_t least_shared_bytes = 100 << 10;
#endif

}  // namespace isthmus::device
