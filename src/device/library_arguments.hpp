#pragma once

// What all backends ask of the numbers given to Blas and Fft, so that a wrong call fails alike on each of them.

#include <cstdint>
#include <limits>

#include "device/device.hpp"

namespace isthmus::device {

/// The libraries count in 32 bits.
inline int library_extent(const char* call, const char* what, std::int64_t value) {
  if (value < 1 || value > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::unsupported, call,
                std::string(what) + " " + std::to_string(value) + " is not in 1…2147483647",
                "use a size that the vendors' libraries can count");
  }
  return static_cast<int>(value);
}

inline int library_pitch(const char* call, const char* what, std::int64_t value, std::int64_t columns) {
  if (value < columns) {
    throw Error(ErrorKind::failure, call,
                std::string(what) + " " + std::to_string(value) + " is less than the row's " + std::to_string(columns),
                "give the elements from one row to the next");
  }
  return library_extent(call, what, value);
}

inline void need_workspace(const void* workspace, std::size_t bytes) {
  if (bytes != 0 && workspace == nullptr) {
    throw Error(ErrorKind::failure, "fft_run",
                "the plan needs " + std::to_string(bytes) + " bytes of workspace and was given none",
                "call set_workspace with as many bytes of device memory");
  }
}

}  // namespace isthmus::device
