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
#include "harness/measure/watch/monitor.hpp"
#include "harness/measure/watch/observer.hpp"
#include "harness/plan/sampling.hpp"
#include "harness/ranks/ranks.hpp"
#include "memory/buffer_set.hpp"
#include "workload/clock.hpp"
#include "workload/registration.hpp"

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

}  // namespace isthmus::harness

namespace isthmus::workload {

struct Case::State final : BufferAddresses {
  State(const CaseSpec& spec_, std::optional<device::DeviceInfo> device_, std::uint64_t seed_,
        const harness::SamplingOptions& sampling_, harness::CaseResult& result_, Team& team_);
  ~State() override;

  struct Declared {
    memory::BufferSpec spec;
    std::size_t element_bytes;
    Shape shape;
    Fill fill;
    bool whole;  ///< filled at once, by one thread
    std::size_t elements() const { return shape.rows * shape.columns; }
  };
  /// What Case::shared() promised.
  struct SharedInput {
    std::string name;
    std::size_t bytes;
    std::function<const void*()> get;
  };

  const CaseSpec& spec;
  std::optional<device::DeviceInfo> device_info;
  std::uint64_t seed;
  harness::SamplingOptions sampling;
  harness::CaseResult& result;
  Team& team;
  bool footprint_only = false;
  bool rehearsing = false;  ///< a body is run to count what it queues
  bool emulated = false;    ///< device times mean nothing: one sample
  double started = now();

  harness::Monitor monitor;
  harness::TimeAccount account;
  harness::ProfilerRanges ranges;
  std::vector<harness::Observer*> observers;
  std::vector<std::unique_ptr<harness::Observer>>
      asked_observers;  ///< some of them: this case was asked to be looked at

  std::optional<InputFile> file;         // once the workload has asked for it
  std::optional<device::Stream> stream;  // outlives the buffers
  std::vector<Declared> buffers;
  std::vector<SharedInput> shared_inputs;
  /// What Case::reads_file() says.
  struct FileReader {
    std::vector<std::size_t> buffers;
    std::function<ReadRow()> open;
  };
  std::optional<FileReader> file_reader;
  std::unique_ptr<memory::BufferSet> set;
  std::size_t chunk_units = 0, repeats = 1;
  /// All units of the chunk dimension; one where the work cannot be cut.
  memory::Range units() const { return {0, std::max<std::size_t>(chunk_units, 1)}; }
  harness::Verifier verifier;
  bool measured = false, sampled = false;
  std::size_t needed_host_bytes = 0, needed_device_bytes = 0;  ///< as needs() said
  std::optional<harness::SampleRemarks> sample;                ///< of the sample being taken
  /// What measure() leaves to the end of the case, so that checks declared after it still find the results.
  std::unique_ptr<harness::Measurement> measurement;

  // In a rehearsal addresses are made up: nothing may be there yet.
  std::byte* device(std::size_t buffer) const override;
  std::byte* host(std::size_t buffer) const override;

  std::string inputs_name() const { return harness::inputs_name(spec, seed, result.input_file); }
  /// Throws std::logic_error where the host has none of it.
  const Declared& checked_buffer(std::size_t buffer) const;

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
    return harness::SamplingOptions::kDefaultBudget;
  }
  /// Throws BudgetSpent where the seconds that were asked for are over and nothing was sampled yet: between the parts
  /// of a case, each of which runs to its end. `done`: what was done last, as "making the inputs".
  void end_if_over_budget(std::string_view done) const;
  bool asked_budget_is_over() const { return sampling.budget && elapsed() > *sampling.budget; }
  bool over_budget(double share = 1) const { return budget() && elapsed() > share * *budget(); }

  /// Whether streams are to be held; where not, the record says so.
  bool wants_latch();
  /// Notes where a sample of the metric is so short that its timer is too coarse for it.
  void judge_ticks(harness::Series& metric);

  /// What the axis says where it changes anything: of measure() in a managed placement.
  std::optional<std::string_view> driver_prefetch() const;
  /// Throws Skip (memory) where the buffers do not fit, and BudgetSpent where their bytes and the workload's own
  /// estimate say that one sample takes longer than the seconds that were asked for.
  void check_footprint(std::size_t host_bytes, std::size_t device_bytes) const;
  void fill(std::size_t buffer);
  /// Of one row; nothing where rows have none.
  static void clear_padding(const Declared& buffer, std::byte* row);
  /// Calls use(offset, first, last), from several threads, for stretches that make up all of a buffer: elements
  /// [first, last), counted without padding, lie together from byte `offset` of its memory on.
  static void for_stretches(const Declared& buffer,
                            const std::function<void(std::size_t, std::size_t, std::size_t)>& use);
  void measure(Control control, std::function<void(Run&)> body, const PagedBuffers& paged);
  /// What the axes say of a placement whose kernels fetch pages. Throws Skip for pages that cannot be.
  memory::PagingOptions paging() const;
};

}  // namespace isthmus::workload

namespace isthmus::harness {

/// A piece of the case, as long as a scope lasts.
class Watched {
 public:
  Watched(Case::State& state, const char* reading, Part part, std::size_t sample = 0) : observers_(state.observers) {
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
