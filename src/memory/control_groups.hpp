#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace isthmus::memory {

/// Memory that this process may still use under the limits of its control groups.
struct ControlGroupMemory {
  std::optional<std::size_t> bytes;  ///< nullopt: no group sets a limit
  std::string unknown;               ///< reason why a limit may have been missed, as half a sentence; else empty
};

/// Returns the smallest amount of memory that this process's group or any group above it leaves, in version 1, version
/// 2, or both if both are mounted. `root`: the folder that contains /proc and the mount points.
ControlGroupMemory control_group_memory(const std::filesystem::path& root = "/");

}  // namespace isthmus::memory
