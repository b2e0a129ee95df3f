#pragma once

// Samples that a workload takes itself instead of calling measure(), which does it for whole programs.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/metric.hpp"

namespace isthmus::workload {

class CaseHost;

/// Interface for sampling a case; Case::sampling() returns it, and it is valid as long as the case exists.
class Sampling {
 public:
  explicit Sampling(CaseHost& host) : host_(&host) {}

  /// Samples `body`, which returns one value of `metric`, for one operation and in the metric's unit.
  void sample(Metric metric, const std::function<double()>& body);
  /// Samples several metrics that are measured at the same time (each direction of a bidirectional transfer and their
  /// sum): `body` returns one value per metric. Sampling ends when the medians of all metrics have converged.
  void sample(std::vector<Metric> metrics, const std::function<std::vector<double>()>& body);
  /// Calls `prepare` before each sample; its time is not part of the sample, and observers of samples do not see it.
  void sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
              const std::function<std::vector<double>()>& body);
  /// Limits the number of samples unless the user requests a number; meant for operations that take a second or more.
  void limit(int most_samples, int most_warmups);
  /// Returns whether the user has asked to stop. Long work then does less and calls end_if_interrupted() between two
  /// operations; the current sample is dropped, and earlier ones are kept. Either all ranks do this or none.
  bool interrupted() const;
  void end_if_interrupted() const;

  // Members for use inside the body of sample().
  /// Declares how many operations were timed together. Throws std::logic_error if `operations` is less than one, or if
  /// called outside the body.
  void batch(int operations);
  /// Marks this sample as invalid; `code` and `message` give the reason, as in a warning. Throws std::logic_error
  /// outside the body.
  void invalidate(std::string code, std::string message);

  /// Return how to use latches: latch() whether a latch must hold streams until everything is queued, latch_timeout()
  /// the seconds after which the latch times out. If latches are off (--no-latch), calling latch() notes that in the
  /// record.
  bool latch() const;
  double latch_timeout() const;
  /// Returns the shortest time, in seconds, that this timer ("event", "clock") measures precisely enough. Repeat a
  /// shorter operation, at most largest_batch() times, and report the number with batch(). Returns 0 on an emulated
  /// device.
  double least_seconds(std::string_view timer) const;
  /// Returns how many operations in a row take long enough for `timer`, but at most `most`; `seconds_of(n)` does n
  /// operations and returns their time in seconds. Returns 1 on an emulated device.
  int batch_for(std::string_view timer, int most, const std::function<double(int)>& seconds_of) const;
  int largest_batch() const;

 private:
  CaseHost* host_;
};

}  // namespace isthmus::workload
