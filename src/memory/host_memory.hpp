#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus::memory {

/// "512MiB", "4GiB", "1048576"; nullopt for what is no number of bytes.
std::optional<std::size_t> parse_bytes(std::string_view text) noexcept;
/// "3.5 GiB", for messages.
std::string format_bytes(double bytes);

/// "64KiB", "1GiB", "1000": exact, as parse_bytes() reads it.
std::string exact_bytes(std::int64_t bytes);

/// The number in "Name:   123 kB" of a /proc file, in bytes; nullopt where it is not there.
std::optional<std::size_t> proc_bytes(const char* file, std::string_view field);

/// Host memory this process may still take. Never unlimited: where nothing says how much there is, `bytes` is so small
/// that any machine has it.
struct HostMemory {
  std::size_t bytes = 0;
  bool known = true;
  std::string doubt;  ///< a sentence where `bytes` may be less than there is; empty for MemAvailable
};

/// The smaller of MemAvailable and what the control groups (Slurm's limits) leave. Where /proc/meminfo has none,
/// `system`, the bytes that sysinfo(2) knows to be free, takes its place. `root`: where /proc and the mount points are.
HostMemory machine_memory(const std::filesystem::path& root, std::optional<std::size_t> system);

/// That of this machine.
HostMemory machine_memory();

/// ISTHMUS_HOST_MEMORY where set, else machine_memory(). Throws std::invalid_argument for an ISTHMUS_HOST_MEMORY that
/// is no number.
HostMemory host_memory();

/// Highest resident size of this process so far.
std::optional<std::size_t> peak_resident_bytes();

}  // namespace isthmus::memory
