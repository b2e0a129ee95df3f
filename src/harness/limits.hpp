#pragma once

// What the hardware allows at most, as it is now: the "share" of a figure is held against it.

#include <optional>

#include "harness/monitor.hpp"
#include "harness/result.hpp"

namespace isthmus::harness {

/// Bytes per second of a PCIe link in one direction after line coding, before any protocol overhead; nullopt for a
/// generation that is not known.
std::optional<double> pcie_rate(int generation, int width) noexcept;

/// Fills in limit or limit_reason of the metrics that measure() yields.
void set_limits(CaseResult& result, bool emulated, const Monitor& monitor);

/// value/limit where higher is better, limit/value where lower.
std::optional<double> share(const Series& series, std::optional<double> median);

}  // namespace isthmus::harness
