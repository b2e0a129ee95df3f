#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus::memory {

/// Parses "512MiB", "4GiB", "1048576"; returns nullopt if `text` is not a number of bytes.
std::optional<std::size_t> parse_bytes(std::string_view text) noexcept;
/// Returns a rounded size for messages: "3.5 GiB".
std::string format_bytes(double bytes);

/// Returns the exact size in the format of parse_bytes(): "64KiB", "1GiB", "1000".
std::string exact_bytes(std::int64_t bytes);

/// Returns the number from a line "Name:   123 kB" of a /proc file, in bytes; nullopt if the file has no such line.
std::optional<std::size_t> proc_bytes(const char* file, std::string_view field);

/// Host memory this process may still use. It is never unlimited: if the amount cannot be found out, `bytes` is so
/// small that any machine has it.
struct HostMemory {
  std::size_t bytes = 0;
  bool known = true;
  std::string doubt;  ///< sentence if more memory than `bytes` may be available; empty for MemAvailable
};

/// Returns MemAvailable, or what the control groups (Slurm's limits) leave if that is less. If /proc/meminfo has no
/// MemAvailable, `system`, the free bytes according to sysinfo(2), replaces it. `root`: the folder that contains /proc
/// and the mount points.
HostMemory machine_memory(const std::filesystem::path& root, std::optional<std::size_t> system);

/// Returns the memory of this machine.
HostMemory machine_memory();

/// Returns ISTHMUS_HOST_MEMORY if it is set, else machine_memory(). Throws std::invalid_argument if ISTHMUS_HOST_MEMORY
/// is not a number.
HostMemory host_memory();

/// Returns the highest resident size of this process so far.
std::optional<std::size_t> peak_resident_bytes();

}  // namespace isthmus::memory
