#pragma once

#include <hwloc.h>

#include <memory>
#include <string>

namespace isthmus::memory {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

/// Processors and memory of this machine. Where HWLOC_XMLFILE and the like name what cannot be read, or another
/// machine, they are left aside. Null where hwloc finds nothing, or /sys is not there to look at. `synthetic`: another
/// machine, as hwloc describes one.
Topology load_topology(const std::string& synthetic = {});

}  // namespace isthmus::memory
