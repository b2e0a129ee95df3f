#pragma once

// Movements of data that run at the same time, each on its own stream; they are timed individually and together.

#include <functional>
#include <memory>
#include <vector>

#include "device/api/device.hpp"
#include "workload/workload.hpp"

namespace isthmus::workload {

/// One movement of data.
struct Lane {
  int device = 0;  ///< device whose stream it is queued on
  /// Queues the movement once; if `blocking`, performs it and returns when it is done.
  std::function<void(device::Stream&)> queue{};
  /// True if `queue` waits until its movement is done: the host's clock then times it, on a separate thread if several
  /// lanes run.
  bool blocking = false;
  /// False if `queue` may wait for its stream or for the host (prefetches, pageable copies): the stream must then not
  /// be held by a latch.
  bool latchable = true;
  device::SpinLatch::Next next = device::SpinLatch::Next::kernel;
};

/// Times of one sample, in seconds per movement.
struct LaneTimes {
  std::vector<double> lanes;  ///< each lane's time, from its first start to its last end
  double all = 0;             ///< time from the first start in any lane to the last end in any lane
  bool invalid = false;       ///< a latch timed out before everything was queued
};

/// Lanes that run at the same time. Lanes on streams start together behind latches and are timed by events, all on the
/// clock of the first lane's device: the first lane's stream waits for the other devices' streams and records an event,
/// because events of two devices cannot be compared (commscope-icpe2019, section 2.1.2). Blocking lanes are timed by
/// the host's clock.
class Lanes {
 public:
  /// Makes lanes; without `latched`, no latches are used and submission is part of the time. Throws device::Error.
  Lanes(std::vector<Lane> lanes, bool latched, double latch_timeout);
  /// Makes lanes that use latches according to the case's options.
  Lanes(const Case& c, std::vector<Lane> lanes);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Returns "event" or "clock".
  const char* timer() const noexcept { return blocking_ ? "clock" : "event"; }
  /// Runs each lane's movement `times` times in a row. Calls `start` when everything that can be queued before the
  /// first movement is queued.
  LaneTimes run(int times = 1, const std::function<void()>& start = {});
  /// Waits for all queued work, on every lane's device.
  void synchronize();

 private:
  struct Track;
  LaneTimes run_on_streams(int times, const std::function<void()>& start);
  LaneTimes run_on_threads(int times);

  std::vector<std::unique_ptr<Track>> tracks_;
  bool blocking_ = false;
  double latch_timeout_;
};

/// Takes one sample, within the body of Sampling::sample(): reports `times` movements as its batch, and makes the
/// sample invalid if a latch timed out.
LaneTimes read(Case& c, Lanes& lanes, int times = 1, const std::function<void()>& start = {});

}  // namespace isthmus::workload
