#pragma once

#include <utility>

#include "device/api/device.hpp"

namespace isthmus::harness {

/// Timer of work on one stream. It uses events, and a latch that holds the stream if all of the work can be queued
/// before any of it starts.
class StreamTimer {
 public:
  using Next = device::SpinLatch::Next;
  StreamTimer(device::Stream& stream, double latch_timeout) : stream_(stream), latch_timeout_(latch_timeout) {}

  /// Waits for the work that `queue` queues and returns the seconds between two events around it. Sets `invalid` if the
  /// latch timed out before everything was queued.
  template <class Queue>
  double time(bool latched, Next next, bool& invalid, Queue queue) {
    return time_until(stream_, latched, next, invalid, queue);
  }
  /// Times work whose last part is on another stream.
  template <class Queue>
  double time_until(device::Stream& last, bool latched, Next next, bool& invalid, Queue queue) {
    {
      const LatchHold hold(latched ? &latch_ : nullptr, stream_, latch_timeout_, next);
      begin_.record(stream_);
      queue();
      end_.record(last);
    }
    last.synchronize();
    invalid |= latched && latch_.timed_out();
    return device::elapsed(begin_, end_);
  }
  bool times(const device::Stream& stream) const { return &stream == &stream_; }
  /// Returns the seconds from the beginning of the latest timed work to event `at`, and from `at` to the end of that
  /// work.
  std::pair<double, double> split(const device::Event& at) const {
    return {device::elapsed(begin_, at), device::elapsed(at, end_)};
  }

 private:
  /// Scope that holds the stream, and releases it even if queueing throws; otherwise the work behind the latch would
  /// wait until the latch times out.
  class LatchHold {
   public:
    LatchHold(device::SpinLatch* latch, device::Stream& stream, double timeout, Next next) : latch_(latch) {
      if (latch_ != nullptr) latch_->hold(stream, timeout, next);
    }
    ~LatchHold() {
      try {
        if (latch_ != nullptr) latch_->release();
      } catch (const device::Error&) {  // the next wait for the stream reports the error
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
