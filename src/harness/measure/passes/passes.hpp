#pragma once

// Passes of a case. A pass resets everything, copies data in, runs the body and copies data out, with a wait between
// these phases (the phased reading) or without one (the overlapped reading).

#include <optional>
#include <utility>
#include <vector>

#include "harness/measure/passes/body.hpp"
#include "harness/measure/passes/stream_timer.hpp"

namespace isthmus::harness {

/// Durations of one pass, in seconds per operation. Those named *_clock are measured by the host's clock and include
/// submission and wait.
struct Pass {
  std::optional<double> in, kernel, out;
  std::optional<std::pair<double, double>> repeats;  ///< first repeat, and mean of the later ones
  double in_clock = 0, kernel_clock = 0, out_clock = 0;
  bool invalid = false;

  double clock() const { return in_clock + kernel_clock + out_clock; }
};

class Passes {
 public:
  Passes(CaseState& state, Body& body, bool latched);
  ~Passes() { set_.stop(); }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  Pass phased(Part part, std::size_t sample);
  /// Times one overlapped pass. Placement `streamed` divides the work into chunks on three streams.
  double overlapped(Part part, std::size_t sample, bool& invalid);
  /// Times the phased reading without any work between its timestamps, which is its own cost.
  double nothing();

  /// Chooses batches that last enough timer ticks, judging by the durations of one pass.
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
  std::size_t in_bytes() const { return in_bytes_; }  ///< bytes that must be copied
  std::size_t out_bytes() const { return out_bytes_; }
  std::size_t in_moved() const { return in_moved_; }  ///< bytes whose transfer the latest pass requested
  std::size_t out_moved() const { return out_moved_; }
  /// Notes that the buffers are new, so that no pass has left results in them.
  void allocated() { dirty_ = false; }

 private:
  using Next = StreamTimer::Next;
  void reset();
  void check_placement();
  double kernel_phase(Pass& pass);
  double queue_at_once(Part part, std::size_t sample, bool& invalid);
  double streamed(bool& invalid);
  int batch_for(std::optional<double> seconds, bool repeatable) const;
  // Only copies between two allocations run on a copy engine, which SpinLatch must prepare.
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
  bool dirty_ = false;  // in-place results have replaced inputs
  bool placement_checked_ = false;
  Batches batches_;

  // State that only placement `streamed` uses.
  std::vector<memory::Range> chunks_;
  std::optional<device::Stream> kernels_stream_, out_stream_;
  std::vector<device::Event> brought_, computed_;
};

}  // namespace isthmus::harness
