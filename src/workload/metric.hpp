#pragma once

// What is measured, and what it is held against.

#include <optional>
#include <string>

namespace isthmus::workload {

/// What a kernel has to do, declared where it is launched: counted once, however often a bad kernel re-reads.
struct Traffic {
  double bytes_read = 0;     ///< device bytes the kernel must read
  double bytes_written = 0;  ///< device bytes it must write
  double flops = 0;

  Traffic& operator+=(const Traffic& other) {
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    flops += other.flops;
    return *this;
  }
  /// Of a part of the work, such as a chunk.
  Traffic operator*(double share) const { return {bytes_read * share, bytes_written * share, flops * share}; }
};

struct Tolerance {
  double absolute = 0;
  double relative = 0;  ///< of |expected|; both may be given, the larger bound holds
};

enum class Better { lower, higher };

/// A metric that a workload measures by itself.
struct Metric {
  std::string name{};
  std::string unit{};                            ///< SI: "s", "B/s", "FLOP/s", "1"
  std::optional<Better> better = Better::lower;  ///< nullopt: neither is
  std::string timer = "event";                   ///< "event", "clock" or "none"
  std::string direction{};                       ///< "h2d", "d2h", "d2d", "h2h" or empty
  double bytes_needed = 0, bytes_moved = 0;
  std::optional<double> limit{};
  std::string limit_source{};
  std::string limit_reason{};  ///< why no limit is known
};

}  // namespace isthmus::workload
