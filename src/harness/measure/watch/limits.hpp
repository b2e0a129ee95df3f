#pragma once

// What the hardware allows at most, as it is now: the "share" of a figure is held against it.

#include <optional>

#include "harness/measure/results/result.hpp"
#include "harness/measure/watch/monitor.hpp"

namespace isthmus::harness {

/// Fills in limit or limit_reason of the metrics that measure() yields.
void set_limits(CaseResult& result, bool emulated, const Monitor& monitor);

/// value/limit where higher is better, limit/value where lower.
std::optional<double> share(const Series& series, std::optional<double> median);

}  // namespace isthmus::harness
