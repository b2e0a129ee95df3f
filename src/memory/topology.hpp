#pragma once

#include <hwloc.h>

#include <memory>
#include <string>

namespace isthmus::memory {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

/// Returns the processors and memory of this machine. Ignores HWLOC_XMLFILE and similar variables if they name
/// something unreadable or another machine. Null if hwloc finds nothing, or if /sys is not readable. `synthetic`:
/// another machine, in hwloc's description language.
Topology load_topology(const std::string& synthetic = {});

}  // namespace isthmus::memory
