#pragma once

// Readings of a workload's own: what measure() does for whole programs, done by hand.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/metric.hpp"

namespace isthmus::workload {

class CaseHost;

/// How a case samples; Case::sampling() gives it, and it may be kept as long as the case.
class Sampling {
 public:
  explicit Sampling(CaseHost& host) : host_(&host) {}

  /// Samples `body`, which returns one value of `metric`: of one operation, in the metric's unit.
  void sample(Metric metric, const std::function<double()>& body);
  /// Several metrics that one event yields (each direction of a bidirectional transfer and their sum): `body` returns a
  /// value of each. Sampling ends when every metric's median is settled.
  void sample(std::vector<Metric> metrics, const std::function<std::vector<double>()>& body);
  /// The same, with `prepare` before each sample, of which it is no part: who observes samples does not look at it.
  void sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
              const std::function<std::vector<double>()>& body);
  /// For operations that take a second and more: from now on at most so many, where the user asks for no number.
  void limit(int most_samples, int most_warmups);
  /// Whether the user has asked for an end. What takes long does less then, and calls end_if_interrupted(), between two
  /// of its operations; a sample in which that happens is left out, and those before it stay. All ranks do, or none.
  bool interrupted() const;
  void end_if_interrupted() const;

  // Inside the body of sample().
  /// So many operations were timed together. Throws std::logic_error for less than one, or outside the body.
  void batch(int operations);
  /// This sample does not count; why, as in a warning. Throws std::logic_error outside the body.
  void invalidate(std::string code, std::string message);

  /// Whether a latch is to hold streams until all is queued, and after how many seconds it gives up. Where none shall
  /// (--no-latch), asking makes the record say so.
  bool latch() const;
  double latch_timeout() const;
  /// What is shorter by this timer ("event", "clock") is too coarse: repeat the operation, at most so often, and say so
  /// with batch(). Zero on an emulated device.
  double least_seconds(std::string_view timer) const;
  /// How many operations in a row are long enough for `timer`, at most `most`: `seconds_of(n)` does n of them and says
  /// how long they took. 1 on an emulated device.
  int batch_for(std::string_view timer, int most, const std::function<double(int)>& seconds_of) const;
  int largest_batch() const;

 private:
  CaseHost* host_;
};

}  // namespace isthmus::workload
