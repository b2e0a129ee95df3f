#pragma once

// Checks of the numbers passed to Blas, Fft and Convolutions, shared by all backends, so that a wrong call fails in the
// same way on each.

#include <cstdint>
#include <limits>

#include "device/api/libraries.hpp"

namespace isthmus::device {

/// Returns `value` as an int, because the libraries use 32-bit sizes. Throws Error (unsupported) if it is out of range.
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
                "pass the number of elements from one row to the next");
  }
  return library_extent(call, what, value);
}

inline void require_workspace(const char* call, const void* workspace, std::size_t bytes) {
  if (bytes != 0 && workspace == nullptr) {
    throw Error(ErrorKind::failure, call,
                "the plan needs " + std::to_string(bytes) + " bytes of workspace, but has none",
                "call set_workspace, or pass that many bytes of device memory");
  }
}

inline void check_shape(const char* call, const ConvolutionShape& s) {
  library_extent(call, "images", s.images);
  library_extent(call, "channels", s.channels);
  library_extent(call, "height", s.height);
  library_extent(call, "width", s.width);
  library_extent(call, "filters", s.filters);
  library_extent(call, "the window's height", s.window_height);
  library_extent(call, "the window's width", s.window_width);
  library_extent(call, "stride", s.stride);
  if (s.padding != 0) library_extent(call, "padding", s.padding);
  const auto inside = [call](const char* what, std::int64_t window, std::int64_t extent, std::int64_t padding) {
    if (window > extent + 2 * padding)
      throw Error(ErrorKind::failure, call,
                  std::string("the window's ") + what + " " + std::to_string(window) + " is more than the plane's " +
                      std::to_string(extent) + " with its padding",
                  "give a smaller window or more padding");
  };
  inside("height", s.window_height, s.height, s.padding);
  inside("width", s.window_width, s.width, s.padding);
  const auto apart = [call](const char* what, std::int64_t distance, std::int64_t plane) {
    if (distance < plane)
      throw Error(ErrorKind::failure, call,
                  std::string("the distance of ") + what + " " + std::to_string(distance) + " is less than a plane's " +
                      std::to_string(plane),
                  "pass the number of elements from one to the next");
    library_extent(call, what, distance);
  };
  apart("images", s.in_image, s.height * s.width);
  apart("channels", s.in_channel, s.height * s.width);
  apart("result images", s.out_image, s.out_height() * s.out_width());
  apart("result channels", s.out_channel, s.out_height() * s.out_width());
}

}  // namespace isthmus::device
