#include "memory/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "memory/control_groups.hpp"

namespace isthmus::memory {

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

std::optional<std::size_t> available_host_memory() {
  if (const char* text = std::getenv("ISTHMUS_HOST_MEMORY"); text != nullptr && *text != '\0') {
    const auto bytes = parse_bytes(text);
    if (!bytes)
      throw std::invalid_argument("ISTHMUS_HOST_MEMORY is '" + std::string(text) +
                                  "', which is not a number of bytes; write for example 8GiB");
    return bytes;
  }
  auto available = proc_bytes("/proc/meminfo", "MemAvailable");
  if (const auto group = control_group_memory()) available = available ? std::min(*available, *group) : *group;
  return available;
}

std::optional<std::size_t> peak_resident_bytes() {
  return proc_bytes("/proc/self/status", "VmHWM");
}

}  // namespace isthmus::memory
