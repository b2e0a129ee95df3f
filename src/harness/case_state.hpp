#pragma once

// What stands behind a Case while its workload runs.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/monitor.hpp"
#include "harness/ranks.hpp"
#include "harness/result.hpp"
#include "harness/verifier.hpp"
#include "harness/workload.hpp"

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

/// Thrown by measure(), needs() and sample() when only the footprint is wanted (--dry-run).
struct FootprintKnown {};

/// Seconds between two values that "event" or "clock" can tell apart; 0 for "none".
double timer_tick(std::string_view timer);

/// Seconds that went into the parts of a case.
struct TimeAccount {
  double inputs = 0, warmups = 0, samples = 0, verifying = 0;
  double total() const { return inputs + warmups + samples + verifying; }
};

/// Adds the life of a scope to a part of the account; an inner scope pauses nothing, so scopes must not nest.
class Accounted {
 public:
  explicit Accounted(double& part) : part_(part), begin_(now()) {}
  ~Accounted() { part_ += now() - begin_; }
  Accounted(const Accounted&) = delete;
  Accounted& operator=(const Accounted&) = delete;

 private:
  double& part_;
  double begin_;
};

/// What the body of sample() says of the sample it takes.
struct SampleRemarks {
  int batch = 1;
  std::vector<Warning> spoilt;
};

struct Case::State {
  State(const CaseSpec& spec_, std::optional<device::DeviceInfo> device_, std::uint64_t seed_,
        const SamplingOptions& sampling_, CaseResult& result_, Team& team_)
      : spec(spec_),
        device(std::move(device_)),
        seed(seed_),
        sampling(sampling_),
        result(result_),
        team(team_),
        monitor(device ? std::optional(device->index) : std::nullopt) {}

  struct Declared {
    memory::BufferSpec spec;
    std::size_t element_bytes, columns, pitch;
    Fill fill;
    std::size_t rows() const { return spec.bytes / element_bytes / pitch; }
    std::size_t elements() const { return rows() * columns; }
  };

  const CaseSpec& spec;
  std::optional<device::DeviceInfo> device;
  std::uint64_t seed;
  SamplingOptions sampling;
  CaseResult& result;
  Team& team;
  Monitor monitor;
  bool footprint_only = false;
  bool emulated = false;  ///< device times mean nothing: one sample
  double started = now();
  TimeAccount account;

  std::optional<device::Stream> stream;  // outlives the buffers
  std::vector<Declared> buffers;
  std::unique_ptr<memory::BufferSet> set;
  memory::BufferSet* set_pointer = nullptr;  ///< buffer handles refer to this
  std::size_t chunk_units = 0;
  Verifier verifier;
  bool measured = false, sampled = false;
  std::size_t needed_host_bytes = 0, needed_device_bytes = 0;  ///< as needs() said
  std::optional<SampleRemarks> sample;                         ///< of the sample being taken
  /// What measure() leaves to the end of the case, so that checks declared after it still find the results.
  std::function<void()> finish;

  double elapsed() const { return now() - started; }
  bool adaptive() const { return !sampling.samples && !emulated; }
  int most_samples() const { return sampling.samples ? *sampling.samples : emulated ? 1 : sampling.most_samples; }
  int warmups() const { return sampling.warmups.value_or(emulated ? 0 : 2); }
  /// Seconds; a count that was asked for is given, however long it takes, unless a budget was asked for too.
  std::optional<double> budget() const {
    if (sampling.budget || sampling.samples) return sampling.budget;
    return SamplingOptions::kDefaultBudget;
  }
  /// Before the first sample of a reading.
  void sampling_begins() {
    monitor.begin();
    sampling_since_ = now();
  }
  bool over_budget(double share = 1) const { return budget() && elapsed() > share * *budget(); }

  /// Between the two the workload's own code runs: what it takes there (tables, buffers of its own) is making inputs,
  /// as far as it was not accounted for as something else.
  void own_code_begins();
  void own_code_ends();

  /// Whether streams shall be held; where not, the record says so.
  bool wants_latch();
  /// Notes where a sample of the metric is so short that its timer is too coarse for it.
  void judge_ticks(Series& metric);

  /// nullopt: go on; else why sampling ends after these samples. Rank 0's word holds for all ranks of the case.
  /// `settled` is asked only where it decides.
  std::optional<Stop> stop(std::size_t taken, int most, const std::function<bool()>& settled, double budget_share = 1);

  /// Throws Skip (memory) where the buffers do not fit.
  void check_footprint(std::size_t host_bytes, std::size_t device_bytes) const;
  void fill(std::size_t buffer);
  void run_measurement(const std::function<void(const Launch&)>& body);

 private:
  double own_code_begin_ = 0, own_code_accounted_ = 0, sampling_since_ = 0;
};

}  // namespace isthmus::harness
