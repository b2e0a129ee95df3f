#pragma once

// What a body asks of Run: counted, timed apart from the samples, and done as the placement does it.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/passes/arrivals.hpp"
#include "harness/measure/passes/stream_timer.hpp"
#include "harness/measure/results/result.hpp"
#include "memory/buffer_set.hpp"
#include "workload/run.hpp"

namespace isthmus::harness {

class Keeper final : public RunKeeper {
 public:
  enum class Watching {
    nothing,    ///< timed passes: what is queued goes straight to the stream
    counting,   ///< each piece of work is noted, and queued
    rehearsal,  ///< each piece of work is noted; nothing is queued
    timing,     ///< each piece of work is noted, queued and timed by itself, behind a latch where one may be held
  };
  Keeper(memory::BufferSet& set, Control control, bool latched) : set_(set), control_(control), latched_(latched) {}

  /// What pieces of work are timed by; no other reading is under way meanwhile.
  StreamTimer* timer = nullptr;

  /// A pass begins; what it notes, it notes anew.
  void watch(Watching what);
  /// Turns and bytes count from here.
  void pass_begins() { turns_ = moved_in_ = moved_out_ = 0; }
  /// Pieces of work in a pass, as far as they were counted, and what all of them have to do.
  std::size_t pieces() const;
  Traffic traffic() const;
  std::size_t turns() const { return turns_; }
  std::size_t moved_in() const { return moved_in_; }
  std::size_t moved_out() const { return moved_out_; }
  /// Whether buffers travel in the middle of the body.
  bool travels() const { return travels_; }
  /// Whether copies run beside it: their numbers and those of marks are below this.
  std::size_t numbers() const { return numbers_; }
  /// What a pass queues besides pieces, on the stream of the work.
  std::size_t events() const { return events_; }
  /// After the rehearsal, and not while anything is timed.
  void make_arrivals() {
    if (numbers_ > 0) arrivals_.emplace(numbers_);
  }
  /// Around each run of the body.
  void run_begins(device::Stream& stream) {
    if (arrivals_) arrivals_->begin(stream);
  }
  void run_ends(device::Stream& stream) {
    if (arrivals_) arrivals_->end(stream);
  }
  /// Seconds that all pieces of a pass took by themselves; nullopt where some were not timed.
  std::optional<double> work_seconds() const;
  /// One entry a kernel or library call, in the order of their first launch.
  std::vector<WorkReport> reports() const;

  void work(const Work& work, device::Stream& stream, const std::function<void()>& queue) override;
  void read(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into) override;
  void fill(device::Stream& stream, std::size_t buffer, std::uint8_t value) override;
  const void* view(std::size_t buffer) const override;
  void travel(device::Stream& stream, std::size_t buffer, memory::Range bytes, Direction direction) override;
  void bring(std::size_t number, const Part& part, std::optional<std::size_t> after) override;
  void await(device::Stream& stream, std::size_t number) override;
  void mark(device::Stream& stream, std::size_t number) override;

 private:
  /// Whether it is a rehearsal, which only counts.
  bool rehearses(std::size_t number, std::size_t events);
  struct Entry {
    std::string name;
    const void* kernel;
    device::LaunchShape shape;
    std::size_t launches = 0;
    Traffic traffic;
    double seconds = 0;  ///< of `timed` launches
    std::size_t timed = 0;
  };
  Entry& entry_of(const Work& work);

  memory::BufferSet& set_;
  const Control control_;
  const bool latched_;
  Watching watching_ = Watching::nothing;
  std::vector<Entry> entries_;
  std::size_t turns_ = 0, moved_in_ = 0, moved_out_ = 0;
  bool travels_ = false;
  std::size_t numbers_ = 0, events_ = 0;
  std::optional<Arrivals> arrivals_;
};

}  // namespace isthmus::harness
