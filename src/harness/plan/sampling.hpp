#pragma once

#include <optional>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// Sampling options; the command line sets some of them.
struct SamplingOptions {
  std::optional<int> samples;  ///< exact number of samples; nullopt for the adaptive rule
  int most_samples = 30;       ///< maximum number of samples of the adaptive rule
  int most_overlapped = 10;
  int enough_long = 10;              ///< maximum of the adaptive rule once sampling has taken `long_sampling` seconds
  double long_sampling = 2;          ///< seconds
  int allocation_cycles = 3;         ///< maximum; it is small because page-locking 32 GiB takes 12 s
  std::optional<int> warmups;        ///< default 2; 0 on an emulated device
  std::optional<double> budget;      ///< seconds per case
  double touch_rate = 3e9;           ///< bytes of fresh host memory that one thread writes per second, for estimates
  std::optional<double> least_time;  ///< minimum seconds of sampling for the adaptive rule
  std::size_t chunks = 16;           ///< number of chunks of placement `streamed`
  bool latch = true;                 ///< holds the stream until all is queued; else small copies measure submission
  double latch_timeout = 5;
  int least_ticks = 100;    ///< minimum timer ticks of a sample; shorter samples are batched
  int largest_batch = 128;  ///< maximum, because launch queues are finite and a latch holds a whole batch

  static constexpr double kDefaultBudget = 120;
};

/// Returns the requested options, completed from the preset of the case and adapted to a profiler.
SamplingOptions sampling_of(const CaseSpec& spec, SamplingOptions asked);

/// Returns whether the workload runs on an emulated device, where its times are meaningless.
bool is_emulated(const Workload& workload) noexcept;

}  // namespace isthmus::harness
