#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/measure/passes/case_state.hpp"
#include "harness/measure/passes/run_keeper.hpp"

namespace isthmus::harness {

/// The body of Case::measure() and how a pass of it is submitted: launch by launch, or as one graph.
class Body {
 public:
  Body(CaseState& state, Control control, std::function<void(Run&)> function, bool latched);

  bool waits() const { return control_ == Control::waits; }
  std::size_t repeats() const { return s_.declared.repeats; }
  Keeper& keeper() { return keeper_; }
  const Keeper& keeper() const { return keeper_; }
  Submission submission() const { return submission_; }

  /// Captures the graphs anew, for the addresses that buffers have now; seconds that it took.
  std::optional<double> capture(device::Stream& stream);

  /// One pass over these units. `first_done` is recorded after the first repeat, where there are several.
  void submit(device::Stream& stream, memory::Range units, device::Event* first_done);
  /// Whether a held stream takes so many passes.
  bool fits_queue(std::size_t passes) const;
  std::size_t most_batch() const;

 private:
  /// Counts what a queued body queues, without a device.
  void rehearse();
  /// As the axis `submission` says, else as a graph where a held stream would not take all launches.
  void choose_submission();
  std::size_t queue_entries() const;
  void run(device::Stream& stream, memory::Range units, std::size_t first, std::size_t last);

  CaseState& s_;
  const Control control_;
  const std::function<void(Run&)> function_;
  Keeper keeper_;
  Submission submission_ = Submission::stream;
  std::vector<device::ExecutableGraph> graphs_;  ///< of the first repeat, and of the later ones
};

}  // namespace isthmus::harness
