#pragma once

// One pass: everything is put back to its start, then data travel in, the body runs, data travel out. With a wait
// between them (the phased reading), or with none (the overlapped reading).

#include <optional>
#include <utility>
#include <vector>

#include "harness/measure/passes/body.hpp"
#include "harness/measure/passes/stream_timer.hpp"

namespace isthmus::harness {

/// What one pass took. Times are per operation; those of the clock include submission and wait.
struct Pass {
  std::optional<double> in, kernel, out;
  std::optional<std::pair<double, double>> repeats;  ///< the first one, and one of the later ones
  double in_clock = 0, kernel_clock = 0, out_clock = 0;
  bool spoilt = false;

  double clock() const { return in_clock + kernel_clock + out_clock; }
};

class Passes {
 public:
  Passes(CaseState& state, Body& body, bool latched);
  ~Passes() { set_.stop(); }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  Pass phased(Part part, std::size_t sample);
  /// `streamed` cuts the work into chunks on three streams.
  double overlapped(Part part, std::size_t sample, bool& spoilt);
  /// The brackets of the phased reading with nothing in them.
  double nothing();

  /// So many operations make a sample of enough ticks, going by what one took.
  void choose_batches(const Pass& pass);
  struct Batches {
    int in = 1, kernel = 1, out = 1, overlapped = 1;
  };
  const Batches& batches() const { return batches_; }

  bool has_in() const { return has_in_; }
  bool has_out() const { return has_out_; }
  const char* kernel_timer() const { return body_.waits() ? "clock" : "event"; }
  const char* out_timer() const { return out_by_clock_ ? "clock" : "event"; }
  const char* overlapped_timer() const { return overlapped_by_clock_ ? "clock" : "event"; }
  std::size_t in_bytes() const { return in_bytes_; }  ///< that must travel
  std::size_t out_bytes() const { return out_bytes_; }
  std::size_t in_moved() const { return in_moved_; }  ///< that were asked to, in the latest pass
  std::size_t out_moved() const { return out_moved_; }
  /// The buffers are new: no pass has left results in them.
  void allocated() { dirty_ = false; }

 private:
  using Next = StreamTimer::Next;
  void reset();
  void check_placement();
  double kernel_phase(Pass& pass);
  double queue_at_once(Part part, std::size_t sample, bool& spoilt);
  double streamed(bool& spoilt);
  int batch_for(std::optional<double> seconds, bool repeatable) const;
  // Only copies between two allocations run on a copy engine; everything else is left to start as it does.
  Next next_in() const { return has_in_ && placement_->two_memories() ? Next::copy_in : Next::kernel; }
  Next next_out() const { return has_out_ && placement_->two_memories() ? Next::copy_out : Next::kernel; }

  CaseState& s_;
  Body& body_;
  const memory::Placement placement_;
  memory::BufferSet& set_;
  device::Stream& stream_;
  const memory::Range units_;
  StreamTimer timer_;
  device::Event first_done_;

  std::size_t in_bytes_ = 0, out_bytes_ = 0, in_moved_ = 0, out_moved_ = 0;
  bool has_inout_ = false, has_in_ = false, has_out_ = false;
  bool out_by_clock_ = false, overlapped_by_clock_ = false;
  bool latch_kernel_ = true, latch_copies_ = false, latch_whole_ = false;
  bool dirty_ = false;  // in-place results lie where inputs should
  bool placement_checked_ = false;
  Batches batches_;

  // Of `streamed`.
  std::vector<memory::Range> chunks_;
  std::optional<device::Stream> kernels_stream_, out_stream_;
  std::vector<device::Event> brought_, computed_;
};

}  // namespace isthmus::harness
