#pragma once

// What is measured, and what it is held against.

#include <optional>
#include <string>
#include <utility>

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

/// What the hardware or a theory allows at most.
struct Bound {
  Bound() = default;
  Bound(const char* why_unknown) : source(why_unknown) {}
  Bound(std::optional<double> known, std::string from) : value(known), source(std::move(from)) {}
  /// A value that a device may not tell.
  Bound(std::optional<double> known, const char* from, const char* why_unknown)
      : value(known), source(known ? from : why_unknown) {}

  std::optional<double> value{};
  std::string source{};  ///< what it is, or why it is not known
};

/// A metric that a workload measures by itself. The functions below make one of each kind.
struct Metric {
  std::string name{};
  std::string unit{};                            ///< SI: "s", "B/s", "FLOP/s", "1"
  std::optional<Better> better = Better::lower;  ///< nullopt: neither is
  std::string timer = "event";                   ///< "event", "clock" or "none"
  std::string direction{};                       ///< "h2d", "d2h", "d2d", "h2h" or empty
  double bytes_needed = 0, bytes_moved = 0;
  Bound bound{};

  /// Of one operation: the bytes that it has to move, those that it does move, and the way they go.
  Metric moving(double needed, double moved, std::string way = {}) && {
    bytes_needed = needed;
    bytes_moved = moved;
    direction = std::move(way);
    return std::move(*this);
  }
};

/// An amount in some unit. The other kinds say for themselves what is better.
inline Metric amount_metric(std::string name, std::string unit, std::optional<Better> better, std::string timer,
                            Bound bound = {}) {
  return {.name = std::move(name),
          .unit = std::move(unit),
          .better = better,
          .timer = std::move(timer),
          .bound = std::move(bound)};
}
/// Seconds.
inline Metric time_metric(std::string name, std::string timer, Bound bound = {}) {
  return amount_metric(std::move(name), "s", Better::lower, std::move(timer), std::move(bound));
}
/// So much a second: "B/s", "FLOP/s", "1/s".
inline Metric rate_metric(std::string name, std::string unit, std::string timer, Bound bound = {}) {
  return amount_metric(std::move(name), std::move(unit), Better::higher, std::move(timer), std::move(bound));
}
/// A part of a whole, or a ratio.
inline Metric share_metric(std::string name, std::string timer, Bound bound = {}) {
  return amount_metric(std::move(name), "1", Better::higher, std::move(timer), std::move(bound));
}
/// What no clock counts.
inline Metric count_metric(std::string name, std::string unit = "1", Bound bound = {}) {
  return amount_metric(std::move(name), std::move(unit), Better::lower, "none", std::move(bound));
}

}  // namespace isthmus::workload
