#pragma once

// Checks of results that a workload declares.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "workload/metric.hpp"

namespace isthmus::workload {

/// Check that compares each element of a buffer with its expected value.
struct ElementCheck {
  std::string buffer_name;
  std::size_t buffer = 0;
  std::size_t element_bytes = 0;
  bool floating = false;
  bool everything = false;                                                          ///< check every element
  std::size_t columns = 0, pitch = 0, elements = 0;                                 ///< `elements` excludes padding
  std::function<std::pair<double, double>(std::size_t, const std::byte*)> compare;  ///< returns {actual, expected}
  Tolerance tolerance;
  std::string method;
};

/// Check by a function of the workload, which returns the error it found.
struct OwnCheck {
  std::string method;
  std::function<double()> error;
  double tolerance = 0;
};

/// Check that every case with the same inputs leaves the same bytes in a buffer.
struct SameCheck {
  std::string buffer_name;
  std::size_t buffer = 0;
  std::size_t element_bytes = 0;
  std::size_t columns = 0, pitch = 0, rows = 0;
};

}  // namespace isthmus::workload
