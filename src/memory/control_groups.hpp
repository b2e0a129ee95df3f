#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace isthmus::memory {

/// What the control groups of a process leave it.
struct ControlGroupMemory {
  std::optional<std::size_t> bytes;  ///< nullopt where none sets a limit
  std::string unknown;               ///< why a limit may be there that is not known: half a sentence, else empty
};

/// The least of this process's own group and those above, of version 1, of version 2 and where both are mounted.
/// `root`: where /proc and the mount points are.
ControlGroupMemory control_group_memory(const std::filesystem::path& root = "/");

}  // namespace isthmus::memory
