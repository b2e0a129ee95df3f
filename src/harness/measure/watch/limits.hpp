#pragma once

// Hardware limits of metrics, from which the "share" of a figure is computed.

#include <optional>

#include "harness/measure/results/result.hpp"
#include "harness/measure/watch/monitor.hpp"

namespace isthmus::harness {

/// Sets limit or limit_reason of each metric of the case.
void set_limits(CaseResult& result, bool emulated, const Monitor& monitor);

/// Returns median/limit if higher is better, limit/median if lower is better; nullopt if any of these is unknown.
std::optional<double> share(const Series& series, std::optional<double> median);

}  // namespace isthmus::harness
