#pragma once

#include <utility>

#include "device/api/device.hpp"

namespace isthmus::harness {

/// Times work on one stream by events, behind a latch where all of it can be queued first.
class StreamTimer {
 public:
  using Next = device::SpinLatch::Next;
  StreamTimer(device::Stream& stream, double latch_timeout) : stream_(stream), latch_timeout_(latch_timeout) {}

  /// Seconds between two events around what `queue` queues; waits for it. `spoilt` becomes true where the latch gave up
  /// before all was queued.
  template <class Queue>
  double time(bool latched, Next next, bool& spoilt, Queue queue) {
    return time_until(stream_, latched, next, spoilt, queue);
  }
  /// The same where the last of the work is on another stream.
  template <class Queue>
  double time_until(device::Stream& last, bool latched, Next next, bool& spoilt, Queue queue) {
    {
      const LatchHold hold(latched ? &latch_ : nullptr, stream_, latch_timeout_, next);
      begin_.record(stream_);
      queue();
      end_.record(last);
    }
    last.synchronize();
    spoilt |= latched && latch_.timed_out();
    return device::elapsed(begin_, end_);
  }
  bool times(const device::Stream& stream) const { return &stream == &stream_; }
  /// Between its beginning and an event, and between that and its end, of the latest time().
  std::pair<double, double> split(const device::Event& at) const {
    return {device::elapsed(begin_, at), device::elapsed(at, end_)};
  }

 private:
  /// Lets the stream go even when queueing throws: what waits behind a latch would wait for its time-out.
  class LatchHold {
   public:
    LatchHold(device::SpinLatch* latch, device::Stream& stream, double timeout, Next next) : latch_(latch) {
      if (latch_ != nullptr) latch_->hold(stream, timeout, next);
    }
    ~LatchHold() {
      try {
        if (latch_ != nullptr) latch_->release();
      } catch (const device::Error&) {  // the stream's next wait reports it
      }
    }
    LatchHold(const LatchHold&) = delete;
    LatchHold& operator=(const LatchHold&) = delete;

   private:
    device::SpinLatch* latch_;
  };

  device::Stream& stream_;
  double latch_timeout_;
  device::SpinLatch latch_;
  device::Event begin_, end_;
};

}  // namespace isthmus::harness
