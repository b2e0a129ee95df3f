#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/measure/passes/case_state.hpp"
#include "harness/measure/passes/run_recorder.hpp"

namespace isthmus::harness {

/// Body of Case::measure(), and the submission of its passes: launch by launch, or as one graph.
class Body {
 public:
  Body(CaseState& state, Control control, std::function<void(Run&)> function, bool latched);

  bool waits() const { return control_ == Control::waits; }
  std::size_t repeats() const { return s_.declared.repeats; }
  RunRecorder& recorder() { return recorder_; }
  const RunRecorder& recorder() const { return recorder_; }
  Submission submission() const { return submission_; }

  /// Captures the graphs again, for the current addresses of the buffers. Returns the seconds that this took; nullopt
  /// if passes are not submitted as graphs.
  std::optional<double> capture(device::Stream& stream);

  /// Submits one pass over these units. `first_done` is recorded after the first repeat, if there are several.
  void submit(device::Stream& stream, memory::Range units, device::Event* first_done);
  /// Returns whether a held stream can queue this number of passes.
  bool fits_queue(std::size_t passes) const;
  std::size_t most_batch() const;

 private:
  /// Runs a body with Control::queued without a device, to count the work that it queues.
  void rehearse();
  /// Chooses the submission that the axis `submission` names. If it names none, chooses a graph if a held stream cannot
  /// queue all launches.
  void choose_submission();
  std::size_t queue_entries() const;
  void run(device::Stream& stream, memory::Range units, std::size_t first, std::size_t last);

  CaseState& s_;
  const Control control_;
  const std::function<void(Run&)> function_;
  RunRecorder recorder_;
  Submission submission_ = Submission::stream;
  std::vector<device::ExecutableGraph> graphs_;  ///< graphs of the first repeat and of the later ones
};

}  // namespace isthmus::harness
