#pragma once

// What a run says while it goes on.

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace isthmus::harness {

/// Guesses from what was done how long the rest takes.
class TimeLeft {
 public:
  /// Seconds of each case, as far as they are known beforehand.
  explicit TimeLeft(std::vector<std::optional<double>> estimates) : estimates_(std::move(estimates)) {}
  /// What comes before `next` is over.
  void begin(std::size_t next) { next_ = next; }
  /// The current case was measured, and took so long.
  void measured(double seconds);
  /// Seconds from the current case on: estimates by as much longer or shorter as those so far, and what nobody could
  /// estimate as long as cases were on average. nullopt as long as there is neither.
  std::optional<double> seconds() const;
  std::size_t cases() const { return estimates_.size(); }

 private:
  std::vector<std::optional<double>> estimates_;
  std::size_t next_ = 0, count_ = 0;
  double all_ = 0;                   ///< what was measured took
  double taken_ = 0, expected_ = 0;  ///< of cases that had an estimate
};

/// On a terminal a line of stderr that is written over; elsewhere, such as in the log of a job, a line now and then.
class Progress {
 public:
  /// `every`: seconds between two lines of a log. Says nothing unless `wanted`.
  Progress(bool wanted, std::vector<std::optional<double>> estimates, double every = 60);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Case `index` begins.
  void begin(std::size_t index, std::string_view label);
  void measured(double seconds) { left_.measured(seconds); }
  /// Makes room for other output.
  void clear() const;

 private:
  TimeLeft left_;
  bool wanted_, terminal_;
  double every_, last_;
};

}  // namespace isthmus::harness
