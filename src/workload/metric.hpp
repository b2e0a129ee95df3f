#pragma once

// Metrics and their limits.

#include <optional>
#include <string>
#include <utility>

namespace isthmus::workload {

/// Work that a kernel must do, declared at its launch: each byte counts once, no matter how often a kernel reads it
/// again.
struct Traffic {
  double bytes_read = 0;     ///< device bytes the kernel must read
  double bytes_written = 0;  ///< device bytes the kernel must write
  double flops = 0;

  Traffic& operator+=(const Traffic& other) {
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    flops += other.flops;
    return *this;
  }
  /// Returns the traffic of a part of the work, such as a chunk.
  Traffic operator*(double share) const { return {bytes_read * share, bytes_written * share, flops * share}; }
};

struct Tolerance {
  double absolute = 0;
  double relative = 0;  ///< relative to |expected|; both may be set, and the larger one applies
};

enum class Better { lower, higher };

/// Maximum that the hardware or a theory allows.
struct Bound {
  Bound() = default;
  Bound(const char* why_unknown) : source(why_unknown) {}
  Bound(std::optional<double> known, std::string from) : value(known), source(std::move(from)) {}
  /// Makes the bound from a value that a device may not report, with the reason to record if it does not.
  Bound(std::optional<double> known, const char* from, const char* why_unknown)
      : value(known), source(known ? from : why_unknown) {}

  std::optional<double> value{};
  std::string source{};  ///< name of the limit, or the reason why it is unknown
};

/// Metric that a workload measures itself. Each of the functions below makes one kind of metric.
struct Metric {
  std::string name{};
  std::string unit{};                            ///< SI: "s", "B/s", "FLOP/s", "1"
  std::optional<Better> better = Better::lower;  ///< nullopt: neither
  std::string timer = "event";                   ///< "event", "clock" or "none"
  std::string direction{};                       ///< "h2d", "d2h", "d2d", "h2h" or empty
  double bytes_needed = 0, bytes_moved = 0;
  Bound bound{};

  /// Sets how many bytes one operation has to move, how many it does move, and in which direction.
  Metric moving(double needed, double moved, std::string way = {}) && {
    bytes_needed = needed;
    bytes_moved = moved;
    direction = std::move(way);
    return std::move(*this);
  }
};

/// Returns a metric for an amount in any unit. The functions below set whether lower or higher is better.
inline Metric amount_metric(std::string name, std::string unit, std::optional<Better> better, std::string timer,
                            Bound bound = {}) {
  return {.name = std::move(name),
          .unit = std::move(unit),
          .better = better,
          .timer = std::move(timer),
          .bound = std::move(bound)};
}
/// Returns a metric in seconds.
inline Metric time_metric(std::string name, std::string timer, Bound bound = {}) {
  return amount_metric(std::move(name), "s", Better::lower, std::move(timer), std::move(bound));
}
/// Returns a metric for a rate: "B/s", "FLOP/s", "1/s".
inline Metric rate_metric(std::string name, std::string unit, std::string timer, Bound bound = {}) {
  return amount_metric(std::move(name), std::move(unit), Better::higher, std::move(timer), std::move(bound));
}
/// Returns a metric for a share of a whole, or for a ratio.
inline Metric share_metric(std::string name, std::string timer, Bound bound = {}) {
  return amount_metric(std::move(name), "1", Better::higher, std::move(timer), std::move(bound));
}
/// Returns a metric for a count, which is not measured by a clock.
inline Metric count_metric(std::string name, std::string unit = "1", Bound bound = {}) {
  return amount_metric(std::move(name), std::move(unit), Better::lower, "none", std::move(bound));
}

}  // namespace isthmus::workload
