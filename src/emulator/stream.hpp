#pragma once

// Streams and events. A stream's work waits until somebody asks for it (synchronise, query, wait) or a short grace has
// passed: a program that forgets to ask reads what was there before.

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
  /// Starts the work before it and waits; gives the fault that kept it from happening, if one did.
  FaultPointer wait();
  void demand();
  double time() const { return time_; }
  FaultPointer fault();
  std::uint64_t ticket = 0;  ///< its place in the stream, set as it is queued

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
  /// Gives the fault it ended with; is given the fault that the stream is in.
  using Work = std::function<FaultPointer(const FaultPointer&)>;
  enum class When { healthy, always };
  enum class Role { work, wait };  ///< wait: for another stream, and so before nobody

  explicit StreamState(int device) : device_(device) {}
  static std::shared_ptr<StreamState> create(int device);
  int device() const noexcept { return device_; }
  /// Runs what is queued, then ends the thread.
  void shut_down();
  /// Waits while the stream is full, as a driver's launch queue does: behind a latch that is for ever, or its time-out.
  /// Returns the ticket by which the work can be waited for; `ticket` has it before the work can start.
  std::uint64_t submit(Work work, When when = When::healthy, std::uint64_t* ticket = nullptr, Role role = Role::work);
  /// Work that is submitted from here on is kept and not queued, its ticket 0, until end_capture gives it.
  void begin_capture();
  std::vector<Work> end_capture();
  bool capturing();
  void demand(std::uint64_t ticket);
  void demand_all();
  void wait(std::uint64_t ticket);
  void wait_all();
  bool idle();
  /// The fault that queued work met; the stream works again afterwards.
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
    std::uint64_t number;  // of all that was submitted in the process
  };
  void run();
  /// In any order but natural: lets streams whose turn is before this one's go first, those that take long excepted.
  void wait_for_turn(std::uint64_t number);
  /// Whether the stream could go on with, or is at, work whose turn is before this rank's.
  bool is_before(std::uint64_t rank, const Configuration& configuration);
  void take_no_turn();

  const int device_;
  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  std::deque<Task> tasks_;
  std::uint64_t submitted_ = 0, demanded_ = 0, executed_ = 0;
  std::optional<std::uint64_t> at_;  ///< the number of the work it has come to, if others may have to wait for that
  bool stopping_ = false;
  FaultPointer fault_;
  std::optional<std::vector<Work>> captured_;
  std::thread thread_;
};

/// Waits for streams without taking their faults.
void drain(const std::vector<std::shared_ptr<StreamState>>& streams);
/// Throws the fault as an Error of `call`.
[[noreturn]] void throw_fault(Fault& fault, const char* call);

/// The state of a stream, for what a graph cannot hold: throws while the stream is captured.
StreamState& outside_capture(const Stream& stream, const char* call);

}  // namespace emulator
