#pragma once

// Reader of the driver's queue of events: attaches to this process's own unified memory, and returns the events since
// the previous call. Until then, events stay in the queue, so that nothing is copied and no memory is allocated while
// the driver services page faults: extending memory holds the lock of the address space, which a driver with HMM or ATS
// needs for each batch. A thread checks whether the queue fills up, and only then takes entries out.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trace/uvm/driver.hpp"
#include "trace/uvm/events.hpp"
#include "trace/uvm/system.hpp"

namespace isthmus::trace::uvm {

/// Exception thrown if the queue is unavailable; one sentence says why and what to do.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Function that receives the new entries, in the driver's order, and the number of entries dropped since its last
/// call. Called from the queue's thread and from threads that request events, never from two at the same time; must not
/// throw.
using Keep = std::function<void(std::span<const Entry> entries, std::uint64_t dropped)>;

struct QueueOptions {
  std::size_t entries = std::size_t{1} << 20;  ///< a power of two; touching 1 GiB causes up to 0.7 million entries
  bool forced = false;                         ///< allows driver branches that were not examined
  bool moves = true;                           ///< includes migrations
  Keep keep{};  ///< called ten times a second with new entries, even if no events are requested
};

/// Events between two calls of take(), in the driver's order.
struct Taken {
  std::vector<Event> events;
  std::uint64_t dropped = 0;          ///< entries that did not fit into the queue; if not 0, all counts of `events` are
                                      ///< too low
  std::uint64_t foreign_replays = 0;  ///< replays of batches without a page fault of this process; they are of other
                                      ///< processes
};

/// Entries between two calls, as the driver wrote them.
struct Drained {
  std::vector<Entry> entries;
  std::uint64_t dropped = 0, foreign_replays = 0;
};

/// Memory that a child of this process does not inherit, because the driver continues to write to it.
class PrivatePages {
 public:
  explicit PrivatePages(std::size_t bytes);
  ~PrivatePages();
  PrivatePages(const PrivatePages&) = delete;
  PrivatePages& operator=(const PrivatePages&) = delete;
  std::byte* data() const noexcept { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

class Queue {
 public:
  /// Attaches to the queue; from then on, all events are recorded. The process must already use CUDA. Throws
  /// Unavailable.
  explicit Queue(System& system, const QueueOptions& options = {});
  /// Detaches from the queue before freeing the memory to which the driver writes.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Returns all events before this call that have not been returned yet. Throws Unavailable if the driver does not
  /// answer.
  Taken take();
  /// Returns the entries written so far, except those that the driver still buffers.
  Drained drained();
  /// Returns the same entries as take(), without decoding them.
  Drained take_entries();

 private:
  void attach(const QueueOptions& options);
  void set_types(unsigned long request);
  template <class Arguments>
  int ask(int descriptor, unsigned long request, Arguments& arguments);
  void flush();
  void drain_until_stopped();
  std::uint32_t waiting() const noexcept;
  void drain();
  bool is_ours(const std::byte* entry);
  Control& control() const noexcept { return *reinterpret_cast<Control*>(control_.data()); }
  std::uint64_t dropped() const noexcept;

  System& system_;
  const std::uint64_t types_;
  const std::uint32_t mask_;
  const Keep keep_;
  PrivatePages queue_, control_, arguments_;
  int queue_descriptor_ = -1, memory_descriptor_ = -1;

  std::mutex mutex_;  // protects all members below
  std::vector<Entry> entries_;
  std::set<std::pair<std::uint8_t, std::uint32_t>> batches_, batches_before_;  ///< latest batches with a page fault of
                                                                               ///< this process
  std::pair<std::uint8_t, std::uint32_t> latest_batch_;
  std::uint64_t foreign_replays_ = 0, dropped_before_ = 0, dropped_kept_ = 0;

  std::atomic<bool> stopped_ = false;
  std::thread drainer_;
};

}  // namespace isthmus::trace::uvm
