#pragma once

// Implementation of Case::measure(), which runs allocation cycles and takes the samples of the phased and the
// overlapped reading in the last of them (docs/method.md).
//
// An allocation cycle consists of host_alloc, host_touch, inputs (made, or read from a file), device_alloc, a cold
// pass, warm passes and free. The metrics in, kernel, out and overlapped are sampled only in the last cycle, because
// allocating is slow.

#include "harness/measure/passes/input_phase.hpp"
#include "harness/measure/passes/passes.hpp"
#include "harness/measure/watch/memory_peak.hpp"
#include "workload/driver_prefetch.hpp"

namespace isthmus::harness {

/// Durations of one allocation cycle, in seconds; absent if the placement has no such step.
struct Allocation {
  std::optional<double> host, device, graph, driver_prefetch;
  std::optional<double> paging;  ///< part of `device`: setup that kernels need to fetch pages
  std::optional<FileReading> file;
  double touch = 0;
  double host_free = 0, device_free = 0;
  Pass pass;  ///< a warm pass of this cycle

  double free() const { return host_free + device_free; }
};

class Measurement {
 public:
  Measurement(CaseState& state, Control control, std::function<void(Run&)> body);
  void run();
  /// Frees the last cycle's buffers and reports the metrics that span cycles.
  void finish();

 private:
  void allocate();
  /// Sets the driver's prefetcher; the time that this takes is a separate metric.
  void set_driver_prefetch(Allocation& allocation);
  void free();
  Pass cold_pass(bool first);
  /// Runs a pass in which each piece of work is timed separately.
  void measure_work_items();
  std::optional<Pass> sample_phased(const Pass& cold);
  void sample_overlapped();
  void sample_nothing();
  void verify(bool fully);
  bool ended() const;
  /// Returns whether one pass serves as the cold pass, the warm pass and the sample.
  bool takes_no_samples() const;

  void report_allocation();
  void report_memory();
  void report_file();
  void report_totals();
  void report_counts();
  void report_work();
  void report_rates();
  void report_overlap();

  CaseState& s_;
  const bool latched_;
  const memory::Placement placement_;
  Body body_;
  Passes passes_;
  std::optional<InputPhase> input_phase_;
  std::optional<workload::DriverPrefetch> driver_prefetch_;
  std::vector<Allocation> allocations_;
  std::optional<MemoryPeak> memory_peak_;  // in the first cycle
  Stop allocation_stop_ = Stop::samples;
};

}  // namespace isthmus::harness
