#pragma once

// Processor time that a hypervisor takes from this host.

#include <iosfwd>
#include <optional>

namespace isthmus::harness {

/// Processor time since the host was started, summed over all processors, in kernel ticks.
struct ProcessorTime {
  double stolen = 0, all = 0;
};

/// Parses the text of /proc/stat; returns nullopt if it lacks these numbers.
std::optional<ProcessorTime> processor_time(std::istream& stat);
/// Returns the processor time of this host.
std::optional<ProcessorTime> processor_time();

/// Returns the share, from 0 to 1, of the processor time between `before` and `after` that was stolen; nullopt if it is
/// unknown, or no tick passed.
std::optional<double> stolen_share(const std::optional<ProcessorTime>& before,
                                   const std::optional<ProcessorTime>& after);

}  // namespace isthmus::harness
