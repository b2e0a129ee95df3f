#pragma once

// What a run measures on.

#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::harness {

/// How many there are, which makes no context on any. Throws device::Error where there is none.
int require_device();

/// What was asked for, else a GPU for each rank of the node: the one that the scheduler shows it, or its own of all.
/// nullopt where there is none and none is `needed`. `asked`: an index or a UUID. Throws InputError, device::Error.
std::optional<device::DeviceInfo> choose_device(const std::optional<std::string>& asked, bool needed, int local_rank);

/// Host memory goes where the user says, else to the device's own node where the machine has several.
/// -1: anywhere. Throws InputError.
int choose_numa_node(const std::optional<int>& asked, const std::optional<device::DeviceInfo>& device);

/// Why a GPU build finds nothing to measure on.
std::string no_device_sentence();

}  // namespace isthmus::harness
