#pragma once

// What stands behind a Case while its workload runs.

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

/// Thrown by measure(), needs() and sample() when only the footprint is wanted (--dry-run).
struct FootprintKnown {};

/// Thrown where the seconds that were asked for do not suffice for a sample; what() says why.
struct BudgetSpent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the body of sample() says of the sample it takes.
struct SampleRemarks {
  int batch = 1;
  std::vector<Warning> spoilt;
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
  bool rehearsing = false;  ///< a body is run to count what it queues
  bool emulated = false;    ///< device times mean nothing: one sample
  double started = now();

  Monitor monitor;
  TimeAccount account;
  ProfilerRanges ranges;
  std::vector<Observer*> observers;
  std::vector<std::unique_ptr<Observer>> asked_observers;  ///< some of them: this case was asked to be looked at

  std::optional<device::Stream> stream;  // outlives the buffers
  Declarations declared;
  std::unique_ptr<memory::BufferSet> set;
  /// All units of the chunk dimension; one where the work cannot be cut.
  memory::Range units() const { return {0, std::max<std::size_t>(declared.chunk_units, 1)}; }
  Verifier verifier;
  bool measured = false, sampled = false;
  std::size_t needed_host_bytes = 0, needed_device_bytes = 0;  ///< as needs() said
  std::optional<SampleRemarks> sample;                         ///< of the sample being taken
  /// What measure() leaves to the end of the case, so that checks declared after it still find the results.
  std::unique_ptr<Measurement> measurement;

  // In a rehearsal addresses are made up: nothing may be there yet.
  std::byte* device(std::size_t buffer) const override;
  std::byte* host(std::size_t buffer) const override;

  std::string inputs_name() const { return harness::inputs_name(spec, seed, result.input_file); }

  /// Throws std::logic_error where the case has a metric of this name.
  void refuse_known(const std::string& metric) const;

  /// Notes that the setting has a say in this case: one that none reads has no effect.
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
  /// Seconds for which an adaptive case samples at least.
  double least_time() const {
    consult("--min-time");
    return sampling.least_time.value_or(0);
  }
  /// Seconds; a count that was asked for is given, however long it takes, unless a budget was asked for too.
  std::optional<double> budget() const {
    if (sampling.budget || sampling.samples) return sampling.budget;
    return SamplingOptions::kDefaultBudget;
  }
  /// Throws BudgetSpent where the seconds that were asked for are over and nothing was sampled yet: between the parts
  /// of a case, each of which runs to its end. `done`: what was done last, as "making the inputs".
  void end_if_over_budget(std::string_view done) const;
  bool asked_budget_is_over() const { return sampling.budget && elapsed() > *sampling.budget; }
  bool over_budget(double share = 1) const { return budget() && elapsed() > share * *budget(); }

  /// Whether streams are to be held; where not, the record says so.
  bool wants_latch();
  /// Notes where a sample of the metric is so short that its timer is too coarse for it.
  void judge_ticks(Series& metric);

  /// What the axis says where it changes anything: of measure() in a managed placement.
  std::optional<std::string_view> driver_prefetch() const;
  /// Throws Skip (memory) where the buffers do not fit, and BudgetSpent where their bytes and the workload's own
  /// estimate say that one sample takes longer than the seconds that were asked for.
  void check_footprint(std::size_t host_bytes, std::size_t device_bytes) const;
  void fill(std::size_t buffer);
  /// Of one row; nothing where rows have none.
  static void clear_padding(const DeclaredBuffer& buffer, std::byte* row);
  /// Calls use(offset, first, last), from several threads, for stretches that make up all of a buffer: elements
  /// [first, last), counted without padding, lie together from byte `offset` of its memory on.
  static void for_stretches(const DeclaredBuffer& buffer,
                            const std::function<void(std::size_t, std::size_t, std::size_t)>& use);
  void measure(Control control, std::function<void(Run&)> body, const PagedBuffers& paged);
  /// What the axes say of a placement whose kernels fetch pages. Throws Skip for pages that cannot be.
  memory::PagingOptions paging() const;
};

/// A piece of the case, as long as a scope lasts.
class Watched {
 public:
  Watched(CaseState& state, const char* reading, Part part, std::size_t sample = 0) : observers_(state.observers) {
    for (auto* observer : observers_) observer->begin(reading, part, sample);
  }
  ~Watched() {
    for (auto* observer : observers_) observer->end();
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  const std::vector<Observer*>& observers_;
};

}  // namespace isthmus::harness
