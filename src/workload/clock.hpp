#pragma once

namespace isthmus::workload {

/// Seconds on the host's steady clock: the only one that is measured with.
double now();

}  // namespace isthmus::workload
