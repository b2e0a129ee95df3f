#pragma once

// Progress output of a run.

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace isthmus::harness {

/// Estimate of the remaining time, from the cases done so far.
class TimeLeft {
 public:
  /// Starts before the first case. `estimates`: expected seconds of each case; nullopt where unknown.
  explicit TimeLeft(std::vector<std::optional<double>> estimates) : estimates_(std::move(estimates)) {}
  /// Marks all cases before `next` as done.
  void begin(std::size_t next) { next_ = next; }
  /// Adds the measured duration of the current case.
  void measured(double seconds);
  /// Returns the expected seconds of the current and all later cases. Estimates are multiplied by the ratio of actual
  /// to estimated time of the cases so far; a case without an estimate counts as an average case. Returns nullopt while
  /// a case has no estimate and none was measured.
  std::optional<double> seconds() const;
  std::size_t cases() const { return estimates_.size(); }

 private:
  std::vector<std::optional<double>> estimates_;
  std::size_t next_ = 0, count_ = 0;
  double all_ = 0;                   ///< seconds spent on all measured cases
  double taken_ = 0, expected_ = 0;  ///< actual and estimated seconds of the cases that had an estimate
};

/// Progress display: on a terminal, a line of stderr that is overwritten; elsewhere, such as in a job's log, an
/// occasional line.
class Progress {
 public:
  /// Creates a display that prints nothing unless `wanted`. `every`: minimum seconds between two lines of a log.
  Progress(bool wanted, std::vector<std::optional<double>> estimates, double every = 60);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Starts case `index`.
  void begin(std::size_t index, std::string_view label);
  void measured(double seconds) { left_.measured(seconds); }
  /// Clears the line, for other output.
  void clear() const;

 private:
  TimeLeft left_;
  bool wanted_, terminal_;
  double every_, last_;
};

}  // namespace isthmus::harness
