#pragma once

// Reads the driver's queue of events: attaches to this process's own unified memory, and gives what came since it was
// last asked. What comes stays in the queue until then, so that nothing is copied and no memory is taken while the
// driver serves faults: growing memory holds the lock of the address space, which a driver with HMM or ATS takes for
// each batch. A thread looks whether the queue fills, and only then takes out what is there.

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

/// The queue cannot be had; one sentence says why and what to do.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Gets what came, in the driver's order, and how many entries were dropped since it was last called. Called from the
/// queue's thread and from those that ask for events, one at a time; must not throw.
using Keep = std::function<void(std::span<const Entry> entries, std::uint64_t dropped)>;

struct QueueOptions {
  std::size_t entries = std::size_t{1} << 20;  ///< a power of two; 1 GiB touched makes up to 0.7 million
  bool forced = false;                         ///< also where nobody has looked at the driver's branch
  bool moves = true;                           ///< migrations, too
  Keep keep{};  ///< where there is one, it gets what came ten times a second, though nobody asks
};

/// What came between two questions, in the driver's order.
struct Taken {
  std::vector<Event> events;
  std::uint64_t dropped = 0;          ///< the driver had no room for so many more: no count of `events` is whole
  std::uint64_t foreign_replays = 0;  ///< replays of batches in which no fault was ours: other processes'
};

/// The same as the driver wrote it.
struct Drained {
  std::vector<Entry> entries;
  std::uint64_t dropped = 0, foreign_replays = 0;
};

/// Memory that a child of this process does not inherit, since the driver goes on writing to it.
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
  /// Attaches; nothing is lost from now on. The process must have begun to use CUDA. Throws Unavailable.
  explicit Queue(System& system, const QueueOptions& options = {});
  /// Ends before any of the memory does that the driver writes to.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// All that happened before this call and has not been taken. Throws Unavailable where the driver does not answer.
  Taken take();
  /// What has come so far; what the driver still holds stays with it.
  Drained drained();
  /// As take().
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

  std::mutex mutex_;  // of all below
  std::vector<Entry> entries_;
  std::set<std::pair<std::uint8_t, std::uint32_t>> batches_, batches_before_;  ///< the latest in which a fault was ours
  std::pair<std::uint8_t, std::uint32_t> latest_batch_;
  std::uint64_t foreign_replays_ = 0, dropped_before_ = 0, dropped_kept_ = 0;

  std::atomic<bool> stopped_ = false;
  std::thread drainer_;
};

}  // namespace isthmus::trace::uvm
