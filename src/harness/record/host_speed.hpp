#pragma once

namespace isthmus::harness {

/// How fast one thread of this host was when the program began. Hosts of one kind differ in it where their clocks,
/// their memory or their hypervisors do.
struct HostSpeed {
  double integer_rate = 0;  ///< dependent shifts and exclusive ors a second: about one a cycle
  double touch_rate = 0;    ///< bytes a second of fresh memory that is written for the first time
  double copy_rate = 0;  ///< bytes a second that are copied between 4 MiB that no cache holds, where it can be flushed
};

/// Probed at the first call, in less than 20 ms where nobody else is at work; later calls return the same.
const HostSpeed& host_speed();

}  // namespace isthmus::harness
