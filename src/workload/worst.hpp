#pragma once

#include <cmath>
#include <limits>

namespace isthmus::workload {

/// Returns the larger of two errors. NaN counts as infinite, so that it is not lost in later comparisons.
inline double worst(double error, double other) {
  if (std::isnan(error) || std::isnan(other)) return std::numeric_limits<double>::infinity();
  return error < other ? other : error;
}

}  // namespace isthmus::workload
