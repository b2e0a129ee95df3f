#pragma once

// Counters of memory in use, read in the same way as by programs that adapt to free memory.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace isthmus::microbench::accounting {

/// Allocation that is observed, its intended node (-1 for any), and the device that allocates it (-1 for none).
struct Watched {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  int node = -1, device = -1;
};

struct Counter {
  std::string_view name;   ///< prefix of its metrics, <name>_allocated and <name>_touched
  std::string_view words;  ///< source of the value
  int sign;                ///< 1 if it counts used memory, -1 if it counts free memory
  bool of_device;          ///< reading it queries a device
  std::optional<std::size_t> (*read)(const Watched& watched);
  bool everywhere = true;  ///< every machine has this counter
};
std::span<const Counter> counters() noexcept;

/// Values of all counters at one moment, in the order of counters(); nullopt for a counter that this machine lacks.
using Reading = std::vector<std::optional<double>>;
Reading read_all(const Watched& watched);
/// Returns the increase, in bytes, of the memory in use according to each counter.
Reading growth(const Reading& before, const Reading& now);

}  // namespace isthmus::microbench::accounting
