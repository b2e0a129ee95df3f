#pragma once

// State behind a Case while its workload runs.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "harness/measure/inputs/inputs.hpp"
#include "harness/measure/inputs/verifier.hpp"
#include "harness/measure/results/result.hpp"
#include "harness/measure/results/stopping.hpp"
#include "harness/measure/watch/monitor.hpp"
#include "harness/measure/watch/observer.hpp"
#include "harness/plan/sampling.hpp"
#include "harness/ranks/ranks.hpp"
#include "memory/buffer_set.hpp"
#include "workload/case_host.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

class Measurement;

/// Exception that measure(), needs() and sample() throw if only the footprint is required (--dry-run).
struct FootprintKnown {};

/// Exception for a requested budget that is too small for one sample; what() describes why.
struct BudgetSpent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Batch size and warnings that the body of sample() reports for its current sample.
struct SampleRemarks {
  int batch = 1;
  std::vector<Warning> invalid;
};

struct CaseState final : BufferAddresses {
  CaseState(const CaseSpec& spec_, std::optional<device::DeviceInfo> device_, std::uint64_t seed_,
            const SamplingOptions& sampling_, CaseResult& result_, Team& team_);
  ~CaseState() override;

  const CaseSpec& spec;
  std::optional<device::DeviceInfo> device_info;
  std::uint64_t seed;
  SamplingOptions sampling;
  StoppingRule stopping_rule = end_when_settled;
  CaseResult& result;
  Team& team;
  bool footprint_only = false;
  bool rehearsing = false;  ///< the body is being run only to count what it queues
  bool emulated = false;    ///< device times are meaningless, so one sample is enough
  double started = now();

  Monitor monitor;
  TimeAccount account;
  ProfilerRanges ranges;
  std::vector<Observer*> observers;
  std::vector<std::unique_ptr<Observer>> asked_observers;  ///< observers that the user requested

  std::optional<device::Stream> stream;  // outlives the buffers
  Declarations declared;
  std::unique_ptr<memory::BufferSet> set;
  /// Returns all units of the chunk dimension; a single unit if the work cannot be divided into chunks.
  memory::Range units() const { return {0, std::max<std::size_t>(declared.chunk_units, 1)}; }
  Verifier verifier;
  bool measured = false, sampled = false;
  std::size_t needed_host_bytes = 0, needed_device_bytes = 0;  ///< bytes reported by needs()
  std::optional<SampleRemarks> sample;                         ///< the sample being taken
  /// Measurement that ends with the case, so that checks declared after measure() still find the results.
  std::unique_ptr<Measurement> measurement;

  // Addresses are made up in a rehearsal, because nothing may be allocated yet.
  std::byte* device(std::size_t buffer) const override;
  std::byte* host(std::size_t buffer) const override;

  std::string inputs_name() const { return harness::inputs_name(spec, seed, result.input_file); }

  /// Throws std::logic_error if the case already has a metric of this name.
  void refuse_known(const std::string& metric) const;

  /// Notes that the setting matters in this case. A setting that no case consults has no effect.
  void consult(std::string_view setting) const { result.consulted.emplace(setting); }

  double elapsed() const { return now() - started; }
  bool adaptive() const { return !sampling.samples && !emulated; }
  int most_samples() const {
    consult("--samples");
    return sampling.samples ? *sampling.samples : emulated ? 1 : sampling.most_samples;
  }
  int warmups() const {
    consult("--warmups");
    return sampling.warmups.value_or(emulated ? 0 : 2);
  }
  /// Returns the minimum time, in seconds, for which an adaptive case samples.
  double least_time() const {
    consult("--min-time");
    return sampling.least_time.value_or(0);
  }
  /// Returns the budget in seconds. A requested number of samples is completed however long it takes, unless a budget
  /// was requested as well.
  std::optional<double> budget() const {
    if (sampling.budget || sampling.samples) return sampling.budget;
    return SamplingOptions::kDefaultBudget;
  }
  /// Throws BudgetSpent if the requested budget is used up and nothing has been sampled yet. Called between the parts
  /// of a case, each of which runs to its end. `done`: the last part, such as "making the inputs".
  void end_if_over_budget(std::string_view done) const;
  bool asked_budget_is_over() const { return sampling.budget && elapsed() > *sampling.budget; }
  bool over_budget(double share = 1) const { return budget() && elapsed() > share * *budget(); }

  /// Returns whether streams are to be held; if not, adds a warning to the record.
  bool wants_latch();
  /// Marks the metric as coarse if a sample is too short for the resolution of its timer.
  void judge_ticks(Series& metric);

  /// Returns the value of the axis driver_prefetch if it has an effect: the case has a managed placement, and the value
  /// is not the default.
  std::optional<std::string_view> driver_prefetch() const;
  /// Throws Skip (memory) if the buffers do not fit, and BudgetSpent if one sample, as estimated from their bytes or by
  /// the workload, would exceed the requested budget.
  void check_footprint(std::size_t host_bytes, std::size_t device_bytes) const;
  void fill(std::size_t buffer);
  /// Zeroes the padding of one row; does nothing if rows have none.
  static void clear_padding(const DeclaredBuffer& buffer, std::byte* row);
  /// Calls use(offset, first, last) from several threads for contiguous stretches that cover the whole buffer. Elements
  /// [first, last), counted without padding, begin at byte `offset` of its memory.
  static void for_stretches(const DeclaredBuffer& buffer,
                            const std::function<void(std::size_t, std::size_t, std::size_t)>& use);
  void measure(Control control, std::function<void(Run&)> body, const PagedBuffers& paged);
  /// Returns the paging options that the axes set, for a placement whose kernels fetch pages. Throws Skip if an option
  /// is out of range or contradicts another.
  memory::PagingOptions paging() const;
};

/// Scope that the observers see as one part of the case.
class ScopedPhase {
 public:
  ScopedPhase(CaseState& state, const char* reading, Part part, std::size_t sample = 0) : observers_(state.observers) {
    for (auto* observer : observers_) observer->begin(reading, part, sample);
  }
  ~ScopedPhase() {
    for (auto* observer : observers_) observer->end();
  }
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

 private:
  const std::vector<Observer*>& observers_;
};

}  // namespace isthmus::harness
