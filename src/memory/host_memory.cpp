#include "memory/host_memory.hpp"

#include <fmt/format.h>

#include <sys/sysinfo.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "memory/control_groups.hpp"

namespace isthmus::memory {

namespace {

// assumed if available memory is unknown: any machine worth measuring has this many bytes
constexpr std::size_t kLeast = std::size_t{1} << 30;

/// Returns the free memory according to sysinfo(2), without /proc. Unlike MemAvailable, it does not count page cache
/// that the kernel could drop.
std::optional<std::size_t> unused_memory() {
  struct sysinfo found{};
  if (sysinfo(&found) != 0) return std::nullopt;
  return (static_cast<std::size_t>(found.freeram) + found.bufferram) * found.mem_unit;
}

}  // namespace

std::optional<std::size_t> proc_bytes(const char* file, std::string_view field) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.size() > field.size() && line.compare(0, field.size(), field) == 0 && line[field.size()] == ':')
      return static_cast<std::size_t>(std::strtoull(line.c_str() + field.size() + 1, nullptr, 10)) * 1024;
  }
  return std::nullopt;
}

std::optional<std::size_t> parse_bytes(std::string_view text) noexcept {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || !(number >= 0)) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  double factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (unit == "KiB") factor = 0x1p10;
  if (unit == "MiB") factor = 0x1p20;
  if (unit == "GiB") factor = 0x1p30;
  if (unit == "TiB") factor = 0x1p40;
  if (factor == 0 || number * factor >= 0x1p63) return std::nullopt;
  return static_cast<std::size_t>(number * factor);
}

std::string format_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string exact_bytes(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

HostMemory machine_memory(const std::filesystem::path& root, std::optional<std::size_t> system) {
  constexpr const char* kSet = "set ISTHMUS_HOST_MEMORY to the usable amount";
  const auto available = proc_bytes((root / "proc/meminfo").c_str(), "MemAvailable");
  const auto group = control_group_memory(root);
  HostMemory found;
  if (available) {
    found.bytes = *available;
  } else if (system) {
    found.bytes = *system;
    found.doubt = fmt::format(
        "/proc/meminfo does not report available host memory, so only the {} that sysinfo(2) reports as free are used, "
        "without the page cache; {}",
        format_bytes(static_cast<double>(*system)), kSet);
  } else {
    found.bytes = kLeast;
    found.known = false;
    found.doubt = fmt::format(
        "neither /proc/meminfo nor sysinfo(2) reports available host memory, so cases that need more than {} are "
        "skipped; {}",
        format_bytes(kLeast), kSet);
  }
  if (group.bytes) found.bytes = std::min(found.bytes, *group.bytes);
  if (!group.unknown.empty() && found.doubt.empty())
    found.doubt = fmt::format(
        "the limit of this process's control group is unknown ({}), so the usable amount of host memory is unknown; {}",
        group.unknown, kSet);
  return found;
}

HostMemory machine_memory() {
  return machine_memory("/", unused_memory());
}

HostMemory host_memory() {
  if (const char* text = std::getenv("ISTHMUS_HOST_MEMORY"); text != nullptr && *text != '\0') {
    const auto bytes = parse_bytes(text);
    if (!bytes)
      throw std::invalid_argument("ISTHMUS_HOST_MEMORY is '" + std::string(text) +
                                  "', which is not a number of bytes; write for example 8GiB");
    return {.bytes = *bytes, .known = true, .doubt = {}};
  }
  return machine_memory();
}

std::optional<std::size_t> peak_resident_bytes() {
  return proc_bytes("/proc/self/status", "VmHWM");
}

}  // namespace isthmus::memory
