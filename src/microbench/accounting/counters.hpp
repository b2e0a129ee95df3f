#pragma once

// Counters of memory in use, each as whoever adapts to free memory reads it.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace isthmus::microbench::accounting {

/// What is being watched: an allocation, the node it is to lie on (-1: any), the device it is made by (-1: none).
struct Watched {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  int node = -1, device = -1;
};

struct Counter {
  std::string_view name;   ///< of its metrics, <name>_allocated and <name>_touched
  std::string_view words;  ///< where it is read
  int sign;                ///< 1: counts what is used; -1: what is free
  bool of_device;          ///< asks a device
  std::optional<std::size_t> (*read)(const Watched& watched);
  bool everywhere = true;  ///< reported wherever what it asks is
};
std::span<const Counter> counters() noexcept;

/// All counters at one moment, in the order of counters(); nullopt for one that is unknown here.
using Reading = std::vector<std::optional<double>>;
Reading read_all(const Watched& watched);
/// How many more bytes than before are in use by each counter.
Reading growth(const Reading& before, const Reading& now);

}  // namespace isthmus::microbench::accounting
