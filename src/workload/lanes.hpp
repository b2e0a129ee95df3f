#pragma once

// Movements that run at once, each on a stream of its own: timed one by one and together.

#include <functional>
#include <memory>
#include <vector>

#include "device/api/device.hpp"
#include "workload/workload.hpp"

namespace isthmus::workload {

/// One movement.
struct Lane {
  int device = 0;  ///< whose stream it is queued on
  /// Queues the movement once; does it, and returns when it is done, where `blocking`.
  std::function<void(device::Stream&)> queue{};
  /// The call waits for what it moves, so the host's clock times it, on a thread of its own where lanes run at once.
  bool blocking = false;
  /// The call may wait for its stream or for the host (prefetches, pageable copies): no latch may hold the stream.
  bool latchable = true;
  device::SpinLatch::Next next = device::SpinLatch::Next::kernel;
};

/// What one reading took, in seconds of one movement.
struct LaneTimes {
  std::vector<double> lanes;  ///< each lane's own, first start to last end
  double all = 0;             ///< from the first start of any lane to the last end of any
  bool spoilt = false;        ///< a latch gave up before all was queued
};

/// Runs lanes at once. Lanes on streams start together behind latches and are timed by events, all together on the
/// clock of the first lane's device: the other devices' streams are joined to its stream by an event, since events of
/// two devices cannot be compared (commscope-icpe2019, section 2.1.2). Blocking lanes are timed by the host's clock.
class Lanes {
 public:
  /// `latched` false leaves out the latches (submission then counts). Throws device::Error.
  Lanes(std::vector<Lane> lanes, bool latched, double latch_timeout);
  /// Latched as the case asks.
  Lanes(const Case& c, std::vector<Lane> lanes);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// "event" or "clock".
  const char* timer() const noexcept { return blocking_ ? "clock" : "event"; }
  /// Each lane moves `times` times in a row. `start` is called when all is queued that can be before the first moves.
  LaneTimes run(int times = 1, const std::function<void()>& start = {});
  /// Waits for whatever is queued, on every lane's device.
  void synchronize();

 private:
  struct Track;
  LaneTimes run_on_streams(int times, const std::function<void()>& start);
  LaneTimes run_on_threads(int times);

  std::vector<std::unique_ptr<Track>> tracks_;
  bool blocking_ = false;
  double latch_timeout_;
};

/// One reading, within the body of Sampling::sample(): `times` movements are its batch, and a latch that gave up makes
/// it invalid.
LaneTimes read(Case& c, Lanes& lanes, int times = 1, const std::function<void()>& start = {});

}  // namespace isthmus::workload
