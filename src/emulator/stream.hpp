#pragma once

// Streams and events. A stream's work is delayed until the program demands it (synchronise, query, wait) or a short
// grace time has passed, so that a program that forgets to wait reads old contents.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "emulator/device.hpp"
#include "emulator/grid.hpp"

namespace emulator {

/// One recording of an event.
class Occurrence {
 public:
  explicit Occurrence(std::weak_ptr<StreamState> stream) : stream_(std::move(stream)) {}
  void happen(FaultPointer fault);
  bool happened();
  /// Starts the work queued before it and waits. Returns the fault that prevented the event from happening, or null.
  FaultPointer wait();
  void demand();
  double time() const { return time_; }
  FaultPointer fault();
  std::uint64_t ticket = 0;  ///< position in the stream, set when the event is queued

 private:
  std::weak_ptr<StreamState> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
  double time_ = 0;
  FaultPointer fault_;
};

class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  /// Work item: receives the current fault of the stream and returns the fault with which the item ended.
  using Work = std::function<FaultPointer(const FaultPointer&)>;
  enum class When { healthy, always };
  enum class Role { work, wait };  ///< wait: waits for another stream; streams never wait for its turn

  explicit StreamState(int device) : device_(device) {}
  static std::shared_ptr<StreamState> create(int device);
  int device() const noexcept { return device_; }
  /// Runs all queued work, then ends the thread.
  void shut_down();
  /// Queues work. Waits while the stream is full, as with a driver's launch queue. If a latch holds the stream and only
  /// the caller would open it, this lasts until the latch times out; without a timeout, forever. Returns the ticket
  /// with which the work can be waited for; `ticket` is set before the work can start.
  std::uint64_t submit(Work work, When when = When::healthy, std::uint64_t* ticket = nullptr, Role role = Role::work);
  /// Starts a capture: submitted work is kept instead of queued, with ticket 0, until end_capture() returns it.
  void begin_capture();
  std::vector<Work> end_capture();
  bool capturing();
  void demand(std::uint64_t ticket);
  void demand_all();
  void wait(std::uint64_t ticket);
  void wait_all();
  bool idle();
  /// Returns the fault with which queued work ended and clears it; the stream works again afterwards.
  FaultPointer take_fault();
  std::uint64_t last_ticket();

  static std::vector<std::shared_ptr<StreamState>> all();
  static std::vector<std::shared_ptr<StreamState>> of_device(int device);

 private:
  struct Task {
    std::chrono::steady_clock::time_point submitted;
    Work work;
    When when;
    Role role;
    std::uint64_t number;  // position among all work submitted in the process
  };
  void run();
  /// Lets streams with an earlier turn go first, unless they are slow. Does nothing in natural order.
  void wait_for_turn(std::uint64_t number);
  /// Returns true if the stream runs, or is ready to run, a work item with a lower rank than `rank`.
  bool is_before(std::uint64_t rank, const Configuration& configuration);
  void take_no_turn();

  const int device_;
  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  std::deque<Task> tasks_;
  std::uint64_t submitted_ = 0, demanded_ = 0, executed_ = 0;
  std::optional<std::uint64_t> at_;  ///< number of the current work item, if other streams may have to wait for it
  bool stopping_ = false;
  FaultPointer fault_;
  std::optional<std::vector<Work>> captured_;
  std::thread thread_;
};

/// Waits for streams without clearing their faults.
void drain(const std::vector<std::shared_ptr<StreamState>>& streams);
/// Throws the fault as an Error of `call`.
[[noreturn]] void throw_fault(Fault& fault, const char* call);

/// Returns the state of a stream, for calls that a graph cannot contain; throws while the stream is being captured.
StreamState& outside_capture(const Stream& stream, const char* call);

}  // namespace emulator
