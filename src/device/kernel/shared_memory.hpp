#pragma once

// What kernels may count on before they know the device.

#include <cstddef>

namespace isthmus::device {

/// Shared memory of a multiprocessor, bytes, that each GPU this backend is built for has.
#if defined(ISTHMUS_BACKEND_HIP)
inline constexpr std::size_t least_shared_bytes = 64 << 10;
#else
inline constexpr std::size_t least_shared_bytes = 100 << 10;
#endif

}  // namespace isthmus::device
