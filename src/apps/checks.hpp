#pragma once

// Helpers that the checks of several programs share. They use all of the host's processors.

#include <array>
#include <cstddef>
#include <mutex>

#include "memory/parallel.hpp"
#include "workload/worst.hpp"

namespace isthmus::apps {

/// Splits 0 … n - 1 into parts of at least `grain` numbers and calls add(i, part) for each number i of a part. Then
/// calls join(part) for one part at a time, in any order.
template <class Part, class Add, class Join>
void for_parts(std::size_t n, std::size_t grain, const Add& add, const Join& join) {
  std::mutex mutex;
  memory::parallel_for(n, grain, [&](std::size_t first, std::size_t last) {
    Part part{};
    for (std::size_t i = first; i < last; ++i) add(i, part);
    const std::lock_guard lock(mutex);
    join(part);
  });
}

/// Returns `count` sums. add(i, sums) adds the share of each i below `n`.
template <class T, std::size_t count, class Add>
std::array<T, count> sums_of(std::size_t n, std::size_t grain, const Add& add) {
  std::array<T, count> sums{};
  for_parts<std::array<T, count>>(n, grain, add, [&](const std::array<T, count>& part) {
    for (std::size_t k = 0; k < count; ++k) sums[k] += part[k];
  });
  return sums;
}

/// Returns how many of 0 … n - 1 satisfy is_so.
template <class IsSo>
double count_where(std::size_t n, std::size_t grain, const IsSo& is_so) {
  return sums_of<double, 1>(n, grain, [&](std::size_t i, auto& sums) { sums[0] += is_so(i) ? 1 : 0; })[0];
}

/// Returns the largest of the errors error(0) … error(n - 1).
template <class Error>
double worst_of(std::size_t n, std::size_t grain, const Error& error) {
  double found = 0;
  for_parts<double>(
      n, grain, [&](std::size_t i, double& part) { part = workload::worst(part, error(i)); },
      [&](double part) { found = workload::worst(found, part); });
  return found;
}

}  // namespace isthmus::apps
