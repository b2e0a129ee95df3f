#pragma once

// Device and NUMA node that a run measures on.

#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::harness {

/// Returns the number of devices without creating a context on any. Throws device::Error if there is none.
int require_device();

/// Returns the requested device: `asked` is an index or a UUID. If it is nullopt, visible devices are assigned to the
/// ranks of the node in turn; a rank to which the scheduler shows only one device gets that one. Returns nullopt if
/// there is no device and none is `needed`. Throws InputError and device::Error.
std::optional<device::DeviceInfo> choose_device(const std::optional<std::string>& asked, bool needed, int local_rank);

/// Returns the NUMA node of host memory: the node that the user named; otherwise the device's node if the machine has
/// several nodes; otherwise -1, which means any node. Throws InputError.
int choose_numa_node(const std::optional<int>& asked, const std::optional<device::DeviceInfo>& device);

/// Returns a sentence that says why there is no device to measure on.
std::string no_device_sentence();

}  // namespace isthmus::harness
