#pragma once

#include <cmath>
#include <limits>

namespace isthmus::workload {

/// The larger of two errors. What is no number counts as infinite, so that it is not lost among those that follow.
inline double worst(double error, double other) {
  if (std::isnan(error) || std::isnan(other)) return std::numeric_limits<double>::infinity();
  return error < other ? other : error;
}

}  // namespace isthmus::workload
