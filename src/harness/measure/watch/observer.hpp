#pragma once

// Observers of a case while it is measured. Times of a case with requested observers are never compared with a
// reference; its counts may be.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/api/profiler_range.hpp"
#include "harness/measure/results/result.hpp"
#include "harness/ranks/watchdog.hpp"

namespace isthmus::harness {

/// Part of a case to which its time is attributed.
enum class Part { inputs, warmups, samples, verifying, overhead };

class Observer {
 public:
  virtual ~Observer() = default;
  /// Begins a piece of the case: sample number `sample` of the reading named `reading`. Pieces nest. `reading` is a
  /// literal, or empty if the piece has no name.
  virtual void begin(const char* reading, Part part, std::size_t sample) = 0;
  /// Ends the innermost piece.
  virtual void end() = 0;
  /// Returns which samples since the last call are invalid, and why. Called when a sample is complete; `last`: the
  /// sample is the last of its reading.
  virtual std::vector<Warning> invalid(std::size_t /*sample*/, bool /*last*/) { return {}; }
  /// Returns the metrics over the whole case.
  virtual std::vector<Series> metrics() { return {}; }
  virtual std::vector<Table> tables() { return {}; }
  /// Returns facts in words for the record.
  virtual std::map<std::string, std::string> notes() { return {}; }
};

/// Observer that was requested with --observe; `make` creates a new one for each case that uses a device.
struct AskedObserver {
  std::string name;
  std::function<std::unique_ptr<Observer>()> make;
};

/// Account of how a case spent its time. Each second counts for the innermost piece.
class TimeAccount final : public Observer {
 public:
  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override;
  double of(Part part) const { return seconds_[static_cast<std::size_t>(part)]; }
  /// Returns the seconds of all parts except `overhead`.
  double accounted() const { return of(Part::inputs) + of(Part::warmups) + of(Part::samples) + of(Part::verifying); }

 private:
  void book();
  double seconds_[5] = {};
  double since_ = 0;
  std::vector<Part> open_;
};

/// Observer that reports the case's progress to a watchdog.
class Heartbeat final : public Observer {
 public:
  explicit Heartbeat(Watchdog& watchdog) : watchdog_(watchdog) {}
  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override { watchdog_.progress(); }

 private:
  Watchdog& watchdog_;
};

/// Observer that marks named pieces as ranges for profilers.
class ProfilerRanges final : public Observer {
 public:
  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override;

 private:
  std::deque<std::optional<device::ProfilerRange>> open_;
};

}  // namespace isthmus::harness
