#pragma once

namespace isthmus::harness {

/// Speed of one thread of this host when the program began. It differs between hosts of one kind if their clocks,
/// memory or hypervisors differ.
struct HostSpeed {
  double integer_rate = 0;  ///< dependent shifts and exclusive ors per second: about one per cycle
  double touch_rate = 0;    ///< bytes per second written to fresh memory for the first time
  double copy_rate = 0;     ///< bytes per second copied between 4 MiB blocks, uncached if caches can be flushed
};

/// Returns the speed. It is measured at the first call, in less than 20 ms on an idle host; later calls return the
/// same.
const HostSpeed& host_speed();

}  // namespace isthmus::harness
