#pragma once

// What watches a case while it is measured. Times of a case that somebody observes closely are never held to a
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

/// What a piece of a case's time goes into.
enum class Part { inputs, warmups, samples, verifying, overhead };

class Observer {
 public:
  virtual ~Observer() = default;
  /// A piece of the case begins: of sample `sample` of the reading of that name. Pieces nest; `reading` is a literal,
  /// or empty where the piece has no name.
  virtual void begin(const char* reading, Part part, std::size_t sample) = 0;
  /// The innermost piece ends.
  virtual void end() = 0;
  /// A sample is complete (the last of its reading where `last`): which samples since the last question do not count,
  /// and why.
  virtual std::vector<Warning> spoilt(std::size_t /*sample*/, bool /*last*/) { return {}; }
  /// What it found over the whole case.
  virtual std::vector<Series> metrics() { return {}; }
  virtual std::vector<Table> tables() { return {}; }
  /// Facts in words for the record.
  virtual std::map<std::string, std::string> notes() { return {}; }
};

/// One that was asked for (--observe): made anew for each case that uses a device.
struct AskedObserver {
  std::string name;
  std::function<std::unique_ptr<Observer>()> make;
};

/// Where the seconds of a case go: each second to the innermost piece.
class TimeAccount final : public Observer {
 public:
  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override;
  double of(Part part) const { return seconds_[static_cast<std::size_t>(part)]; }
  /// All but the harness's own.
  double accounted() const { return of(Part::inputs) + of(Part::warmups) + of(Part::samples) + of(Part::verifying); }

 private:
  void book();
  double seconds_[5] = {};
  double since_ = 0;
  std::vector<Part> open_;
};

/// Shows a watchdog that the case goes on.
class SignsOfLife final : public Observer {
 public:
  explicit SignsOfLife(Watchdog& watchdog) : watchdog_(watchdog) {}
  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override { watchdog_.progress(); }

 private:
  Watchdog& watchdog_;
};

/// Pieces with a name, for profilers.
class ProfilerRanges final : public Observer {
 public:
  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override;

 private:
  std::deque<std::optional<device::ProfilerRange>> open_;
};

}  // namespace isthmus::harness
