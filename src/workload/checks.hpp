#pragma once

// Checks of results, as a workload declares them.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "workload/metric.hpp"

namespace isthmus::workload {

/// Elements of a buffer, each compared with the value that it should have.
struct ElementCheck {
  std::string buffer_name;
  std::size_t buffer = 0;
  std::size_t element_bytes = 0;
  bool floating = false;
  bool everything = false;                                                          ///< every element, however many
  std::size_t columns = 0, pitch = 0, elements = 0;                                 ///< elements without padding
  std::function<std::pair<double, double>(std::size_t, const std::byte*)> compare;  ///< actual, expected
  Tolerance tolerance;
  std::string method;
};

/// A function of the workload that returns the error it found.
struct OwnCheck {
  std::string method;
  std::function<double()> error;
  double tolerance = 0;
};

/// A buffer in which every case with the same inputs leaves the same bytes.
struct SameCheck {
  std::string buffer_name;
  std::size_t buffer = 0;
  std::size_t element_bytes = 0;
  std::size_t columns = 0, pitch = 0, rows = 0;
};

}  // namespace isthmus::workload
