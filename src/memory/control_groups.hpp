#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace isthmus::memory {

/// Bytes that the control groups of this process leave it: the least of its own group and those above, of version 1, of
/// version 2 and where both are mounted. nullopt where none sets a limit. `root`: where /proc and the mount points are.
std::optional<std::size_t> control_group_memory(const std::filesystem::path& root = "/");

}  // namespace isthmus::memory
