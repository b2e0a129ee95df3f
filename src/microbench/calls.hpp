#pragma once

// How the cost of a call is read: on the host's clock.

#include <string>
#include <utility>

#include "workload/workload.hpp"

namespace isthmus::microbench {

/// A cost, in seconds of one call, by the timer given.
inline workload::Metric call_cost(std::string name, const char* timer) {
  return {.name = std::move(name),
          .unit = "s",
          .better = workload::Better::lower,
          .timer = timer,
          .limit_reason = "the cost of a call has no known bound"};
}
/// One that the host pays, by its own clock.
inline workload::Metric host_cost(std::string name) {
  return call_cost(std::move(name), "clock");
}

/// Seconds that `work` takes.
template <class Work>
double timed(Work&& work) {
  const double begin = workload::now();
  work();
  return workload::now() - begin;
}

}  // namespace isthmus::microbench
