#pragma once

// What a hypervisor takes of this host's processors.

#include <iosfwd>
#include <optional>

namespace isthmus::harness {

/// Time of all processors since the host was started, in the kernel's ticks.
struct ProcessorTime {
  double stolen = 0, all = 0;
};

/// From the text of /proc/stat; nullopt where that does not say.
std::optional<ProcessorTime> processor_time(std::istream& stat);
/// Of this host.
std::optional<ProcessorTime> processor_time();

/// What of the time between the two was stolen, from 0 to 1; nullopt where it is unknown, or no tick passed.
std::optional<double> stolen_share(const std::optional<ProcessorTime>& before,
                                   const std::optional<ProcessorTime>& after);

}  // namespace isthmus::harness
