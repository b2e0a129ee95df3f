#pragma once

#include <optional>

#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// How to sample; the command line sets some of it.
struct SamplingOptions {
  std::optional<int> samples;  ///< exactly so many; else adaptive
  int most_samples = 30;       ///< of the adaptive rule
  int most_overlapped = 10;
  int enough_long = 10;              ///< samples of the adaptive rule, once they have taken …
  double long_sampling = 2;          ///< … so many seconds
  int allocation_cycles = 3;         ///< page-locking 32 GiB takes 12 s: allocate no more often than this
  std::optional<int> warmups;        ///< default 2; none on an emulated device
  std::optional<double> budget;      ///< seconds per case
  double touch_rate = 3e9;           ///< bytes of fresh host memory that a thread writes in a second, for estimates
  std::optional<double> least_time;  ///< seconds for which the adaptive rule takes samples at least
  std::size_t chunks = 16;           ///< of placement `streamed`
  bool latch = true;                 ///< hold the stream until all is queued; without, small copies show the submission
  double latch_timeout = 5;
  int least_ticks = 100;    ///< a sample shorter than this many timer ticks is batched
  int largest_batch = 128;  ///< launch queues are finite, and a latch holds all of a batch

  static constexpr double kDefaultBudget = 120;
};

/// What was asked for, and where nothing was, what the preset of the case says.
SamplingOptions sampling_of(const CaseSpec& spec, SamplingOptions asked);

/// Whether figures of this workload mean nothing on this backend.
bool is_emulated(const Workload& workload) noexcept;

}  // namespace isthmus::harness
