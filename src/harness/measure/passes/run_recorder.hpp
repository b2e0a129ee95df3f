#pragma once

// Recorder of the requests that a body makes through Run. It counts them, times them separately from the samples, and
// executes them as the placement requires.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/passes/async_copies.hpp"
#include "harness/measure/passes/stream_timer.hpp"
#include "harness/measure/results/result.hpp"
#include "memory/buffer_set.hpp"
#include "workload/run.hpp"

namespace isthmus::harness {

class RunRecorder final : public RunHooks {
 public:
  enum class Watching {
    nothing,    ///< timed passes: work goes directly to the stream
    counting,   ///< each piece of work is noted and queued
    rehearsal,  ///< each piece of work is noted; nothing is queued
    timing,     ///< each piece of work is noted, queued and timed separately, behind a latch if one may be held
  };
  RunRecorder(memory::BufferSet& set, Control control, bool latched)
      : set_(set), control_(control), latched_(latched) {}

  /// Timer for pieces of work. Nothing else may be timed with it while the recorder uses it.
  StreamTimer* timer = nullptr;

  /// Starts a pass. Unless `what` is `nothing`, earlier notes are discarded.
  void watch(Watching what);
  /// Resets the counts of host round trips and bytes.
  void pass_begins() { host_round_trips_ = moved_in_ = moved_out_ = 0; }
  /// Returns the number of pieces of work that were counted in the latest watched pass; traffic() returns their total
  /// traffic.
  std::size_t work_items() const;
  Traffic traffic() const;
  std::size_t host_round_trips() const { return host_round_trips_; }
  std::size_t moved_in() const { return moved_in_; }
  std::size_t moved_out() const { return moved_out_; }
  /// Returns whether the body copies buffers.
  bool travels() const { return travels_; }
  /// Returns an exclusive upper limit of the numbers of concurrent copies and of marks; 0 if the body has none.
  std::size_t numbers() const { return numbers_; }
  /// Returns the number of entries (waits and marks) that a pass queues on the work's stream in addition to the pieces
  /// of work.
  std::size_t events() const { return events_; }
  /// Creates the stream and events for concurrent copies. Called after the rehearsal, which counts them, and not while
  /// anything is timed.
  void make_async_copies() {
    if (numbers_ > 0) async_copies_.emplace(numbers_);
  }
  /// Lets concurrent copies begin. Called before each run of the body; run_ends() is called after it.
  void run_begins(device::Stream& stream) {
    if (async_copies_) async_copies_->begin(stream);
  }
  void run_ends(device::Stream& stream) {
    if (async_copies_) async_copies_->end(stream);
  }
  /// Returns the seconds that all pieces of a pass took when timed separately; nullopt if some were not timed.
  std::optional<double> work_seconds() const;
  /// Returns one entry per kernel or library call, in the order of their first launch.
  std::vector<WorkReport> reports() const;

  void work(const Work& work, device::Stream& stream, const std::function<void()>& queue) override;
  void read(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into) override;
  void fill(device::Stream& stream, std::size_t buffer, std::uint8_t value) override;
  const void* view(std::size_t buffer) const override;
  void travel(device::Stream& stream, std::size_t buffer, memory::Range bytes, Direction direction) override;
  void copy_in(std::size_t number, const Part& part, std::optional<std::size_t> after) override;
  void await(device::Stream& stream, std::size_t number) override;
  void mark(device::Stream& stream, std::size_t number) override;

 private:
  /// Returns whether this is a rehearsal, in which `number` and `events` are only counted. Throws std::logic_error if
  /// the body waits.
  bool rehearses(std::size_t number, std::size_t events);
  struct Entry {
    std::string name;
    const void* kernel;
    device::LaunchShape shape;
    std::size_t launches = 0;
    Traffic traffic;
    double seconds = 0;  ///< sum over the `timed` launches
    std::size_t timed = 0;
  };
  Entry& entry_of(const Work& work);

  memory::BufferSet& set_;
  const Control control_;
  const bool latched_;
  Watching watching_ = Watching::nothing;
  std::vector<Entry> entries_;
  std::size_t host_round_trips_ = 0, moved_in_ = 0, moved_out_ = 0;
  bool travels_ = false;
  std::size_t numbers_ = 0, events_ = 0;
  std::optional<AsyncCopies> async_copies_;
};

}  // namespace isthmus::harness
