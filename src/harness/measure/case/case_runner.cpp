#include "harness/measure/case/case_runner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <new>
#include <set>

#include "harness/measure/case/host.hpp"
#include "harness/measure/inputs/inputs.hpp"
#include "harness/measure/passes/measurement.hpp"
#include "harness/measure/results/rank_results.hpp"
#include "harness/measure/watch/limits.hpp"
#include "harness/measure/watch/stolen_time.hpp"
#include "harness/output.hpp"
#include "harness/plan/metric_ranges.hpp"
#include "harness/plan/workloads.hpp"
#include "harness/ranks/interrupt.hpp"
#include "workload/clock.hpp"
#include "workload/driver_prefetch.hpp"

namespace isthmus::harness {

namespace {

/// Returns the reason to skip the case before its workload is called; nullopt if there is none.
std::optional<Skip> reason_to_skip(const CaseSpec& spec, const RunContext& context) {
  if (spec.not_applicable) return Skip(*spec.not_applicable, SkipKind::not_applicable);
  if (spec.workload->description().several_ranks && context.ranks == nullptr)
    return Skip(has_ranks_library() ? "several ranks measure it together: start them with mpirun or srun"
                                    : "several ranks measure it together, but this build has no MPI");
  if (spec.placement && context.device) {
    if (const auto reason = memory::unsupported_reason(*spec.placement, *context.device)) return Skip(*reason);
  }
  return std::nullopt;
}

void note_skip(CaseResult& result, const Skip& skip) {
  result.skipped = skip.what();
  result.skip_kind = skip.kind;
  result.insufficient_memory = skip.insufficient_memory;
}

void note_device_error(CaseResult& result, const device::Error& error) {
  if (error.kind() == device::ErrorKind::unsupported) {
    note_skip(result, Skip(error.what()));
    return;
  }
  result.error = error.what();
  result.device_lost = error.kind() == device::ErrorKind::device_lost;
}

/// Runs `body` and puts whatever it throws into the result.
template <class Body>
void guarded(CaseResult& result, Body body) {
  try {
    body();
  } catch (const OtherRankEnded&) {
    result.ended_by_other_rank = true;
  } catch (const Interrupted&) {
    result.interrupted = true;
  } catch (const BudgetSpent& spent) {
    result.skipped = spent.what();
    result.over_budget = true;
  } catch (const Skip& skip) {
    note_skip(result, skip);
  } catch (const device::Error& error) {
    note_device_error(result, error);
  } catch (const std::length_error& error) {  // from memory::byte_count
    note_skip(result, Skip(error.what(), SkipKind::memory));
  } catch (const std::bad_alloc&) {
    result.error = "the host has no memory left for the harness itself; choose a smaller size";
  } catch (const std::exception& error) {
    result.error = sentence_of(error);
  } catch (...) {
    result.error = "the workload threw something that is not a std::exception; throw one that describes the error";
  }
}

/// Sets the verdict of a case that ran to its end.
void conclude_verification(CaseResult& result, CaseState& state) {
  const auto& description = result.spec.workload->description();
  result.verification = state.verifier.outcome();
  auto& verification = result.verification;
  if (result.error || result.skipped || result.ended_by_other_rank) {
    if (verification.verdict != Verdict::fail) verification = {};
    return;
  }
  if (verification.verdict != Verdict::not_run) return;
  if (description.unverified) {
    verification.verdict = Verdict::not_applicable;
    verification.detail = *description.unverified;
  } else if (result.interrupted) {
    return;  // mark_interrupted() reports it
  } else if (state.verifier.empty()) {
    result.error = "nothing was verified: " + result.spec.workload->name() + " declares no check";
  } else {
    result.error = "the results were not verified, since nothing was measured";
  }
}

/// Invalidates samples outside the range of their metric, because such values cannot be right, whatever caused them.
void judge_ranges(CaseResult& result) {
  for (auto& metric : result.metrics) {
    std::vector<std::size_t> outside;
    for (std::size_t i = 0; i < metric.samples.size(); ++i) {
      if (out_of_range(metric.name, metric.samples[i])) outside.push_back(i);
    }
    if (outside.empty()) continue;
    result.warn(
        "out_of_range",
        fmt::format("{} is {:.3g}, outside the range of this metric", metric.name, metric.samples[outside.front()]),
        outside);
    std::set<std::size_t> invalid(metric.invalid.begin(), metric.invalid.end());
    invalid.insert(outside.begin(), outside.end());
    metric.invalid.assign(invalid.begin(), invalid.end());
  }
}

/// Fails a case if one of its metrics has no valid sample, or if a metric that its workload declares is missing.
/// Metrics with a single value and derived metrics may lack valid samples.
void conclude_samples(CaseResult& result) {
  if (result.error || result.skipped || result.interrupted || result.ended_by_other_rank || result.failed()) return;
  for (const auto& metric : result.metrics) {
    if (metric.stop == Stop::single || metric.stop == Stop::derived || !metric.valid().empty()) continue;
    std::set<std::string> reasons;
    for (const auto& warning : result.warnings) {
      if (!warning.samples.empty()) reasons.insert(warning.code);
    }
    result.error =
        fmt::format("every sample of {} is invalid ({}); measure it again", metric.name, fmt::join(reasons, ", "));
    return;
  }
  for (const auto& promised : result.spec.workload->description().metrics) {
    if (result.find(promised) != nullptr) continue;
    result.error =
        fmt::format("metric {} was not measured, although {} declares it", promised, result.spec.workload->name());
    return;
  }
}

/// Warns if the case turned the driver's prefetcher off, but an observer saw it move something.
void judge_driver_prefetch(CaseResult& result) {
  const auto* value = result.spec.find(kDriverPrefetch);
  if (value == nullptr || *value != AxisValue("off")) return;
  for (const auto& metric : result.metrics) {
    if (!metric.name.starts_with("uvm_") || !metric.name.ends_with("prefetch_bytes")) continue;
    const double most = *std::max_element(metric.samples.begin(), metric.samples.end());
    if (most > 0)
      result.warn("driver_prefetch_on",
                  fmt::format("the driver's prefetcher was off, but moved {:.0f} bytes in a sample", most));
  }
}

/// Marks an interrupted case in its record, because --resume would otherwise consider it done.
void mark_interrupted(CaseResult& result) {
  if (!result.interrupted || result.error || result.skipped) return;
  bool marked = false;
  for (auto& metric : result.metrics) {
    if (metric.stop == Stop::derived || metric.stop == Stop::single) continue;
    metric.stop = Stop::interrupted;
    marked = true;
  }
  if (!marked) {
    result.error = fmt::format("{}the first sample", kInterruptedBefore);
    result.verification = {};
  } else if (result.verification.verdict == Verdict::not_run) {
    result.error = fmt::format("{}the results were verified", kInterruptedBefore);
  }
}

}  // namespace

std::optional<device::DeviceInfo> device_of(const Workload& workload,
                                            const std::optional<device::DeviceInfo>& session) {
  const auto& description = workload.description();
  if (!session || description.cpu_only) return std::nullopt;
  if (description.devices.empty()) return session;
  const int first = description.devices.front();
  return first == session->index || first >= device::count() ? session : device::info(first);
}

namespace {

/// Deadline of emulated kernels: they end when the case's requested budget is used up. A GPU cannot end running
/// kernels.
class Deadline {
 public:
  explicit Deadline(const CaseState& state) : state_(state), set_(state.emulated && state.sampling.budget) {
    if (set_) device::set_work_deadline(*state.sampling.budget);
  }
  ~Deadline() {
    if (set_) device::set_work_deadline(std::numeric_limits<double>::infinity());
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  /// Returns whether the error was caused by this deadline.
  bool ended(const device::Error& error) const {
    return set_ && error.kind() == device::ErrorKind::timeout && state_.elapsed() >= *state_.sampling.budget;
  }

 private:
  const CaseState& state_;
  const bool set_;
};

/// Returns the devices that the workload uses in addition to the monitored one.
std::vector<CaseResult::OtherDevice> other_devices(const Workload& workload, const device::DeviceInfo& watched) {
  std::vector<CaseResult::OtherDevice> others;
  for (const int index : workload.description().devices) {
    if (index == watched.index || index >= device::count()) continue;
    const auto telemetry = device::telemetry(index);
    others.push_back({device::info(index), telemetry, telemetry});
  }
  return others;
}

/// Runs a case until its footprint is known, without allocating its buffers.
CaseResult outline(const CaseSpec& spec, const RunContext& context, CaseFootprint& found) {
  CaseResult result;
  result.spec = spec;
  result.numa_node = context.numa_node;
  Team team(alone(), interrupted);
  CaseState state(spec, context.device, context.seed, context.sampling, result, team);
  state.footprint_only = true;
  state.emulated = is_emulated(*spec.workload);
  guarded(result, [&] {
    try {
      Host host(state);
      Case run(host);
      spec.workload->description().function(run);
    } catch (const FootprintKnown&) {
    }
  });
  found.host_bytes = state.needed_host_bytes;
  found.device_bytes = state.needed_device_bytes;
  return result;
}

/// Returns the outline() of a case whose buffers do not fit into memory; nullopt for other cases.
std::optional<CaseResult> without_room(const CaseSpec& spec, const RunContext& context) {
  CaseFootprint needed;
  auto found = outline(spec, context, needed);
  if (!found.skipped || found.skip_kind != SkipKind::memory) return std::nullopt;
  return found;
}

/// Finds out which file a case reads, and frees inputs of other cases. Returns false if the case is not to be run; the
/// result then contains the reason.
bool look_at_inputs(CaseResult& result, const CaseSpec& spec, const RunContext& context) {
  if (const auto skip = reason_to_skip(spec, context)) {
    note_skip(result, *skip);
    return false;
  }
  if (reads_file(spec) && without_room(spec, context)) {
    keep_only_inputs_of("");  // inputs of the previous case may occupy the memory
    if (const auto found = without_room(spec, context)) {
      result.skipped = found->skipped;
      result.skip_kind = found->skip_kind;
      result.insufficient_memory = found->insufficient_memory;
      return false;  // an unused file is not hashed, because that may take minutes
    }
  }
  result.input_file = input_file_facts(spec, interrupted);
  keep_only_inputs_of(inputs_name(spec, context.seed, result.input_file));
  result.interrupted = reads_file(spec) && !result.input_file && interrupted();
  return !result.interrupted;
}

CaseResult run_on_this_rank(const CaseSpec& spec, const RunContext& context, Team& team) {
  CaseResult result;
  result.spec = spec;
  const auto& description = spec.workload->description();
  try {
    result.device = device_of(*spec.workload, context.device);
    if (result.device) result.other_devices = other_devices(*spec.workload, *result.device);
  } catch (const device::Error& error) {
    note_device_error(result, error);
    return result;
  }
  const bool uses_device = result.device.has_value();
  result.numa_node = context.numa_node;
  if (spec.placement && (*spec.placement)->chunked) result.chunks = context.sampling.chunks;
  const double begin = now();
  if (!look_at_inputs(result, spec, context)) {
    if (uses_device) result.before = device::telemetry(result.device->index);
    result.wall = now() - begin;
    return result;
  }
  {
    std::optional<Heartbeat> signs;
    CaseState state(spec, result.device, context.seed, sampling_of(spec, context.sampling), result, team);
    state.stopping_rule = context.stopping_rule;
    state.emulated = is_emulated(*spec.workload);
    if (context.watchdog != nullptr) state.observers.push_back(&signs.emplace(*context.watchdog));
    if (spec.oversubscribed) result.notes["oversubscribe"] = *spec.oversubscribed;
    if (uses_device) {
      result.before = device::telemetry(result.device->index);
      state.monitor.see(*result.before);
      for (const auto& asked : context.observers) {
        result.observed_by.push_back(asked.name);
        state.observers.push_back(state.asked_observers.emplace_back(asked.make()).get());
      }
    }
    guarded(result, [&] {
      Host host(state);
      Case run(host);
      const Deadline deadline(state);
      // Time in the workload's code counts as making inputs, except in phases that are attributed to other parts.
      const ScopedPhase own_code(state, spec.workload->name().c_str(), Part::inputs);
      try {
        description.function(run);
      } catch (const device::Error& error) {
        if (!deadline.ended(error)) throw;
        throw BudgetSpent(
            fmt::format("the budget of {:g} s ended while a kernel of the emulator ran ({:.3g} s); raise --budget, or "
                        "choose a smaller size",
                        *state.sampling.budget, state.elapsed()));
      }
      {
        const ScopedPhase verifying(state, "", Part::verifying);
        if (state.measured) state.verifier.check_same(*state.set, state.inputs_name(), spec.label());
      }
      const ScopedPhase finishing(state, "", Part::overhead);
      if (state.measurement) state.measurement->finish();
      for (auto* observer : state.observers) {
        for (auto& metric : observer->metrics()) result.metrics.push_back(std::move(metric));
        for (auto& table : observer->tables()) result.tables.push_back(std::move(table));
        result.notes.merge(observer->notes());
      }
      judge_driver_prefetch(result);
    });
    if (uses_device) {
      result.after = result.before;
      device::refresh(*result.after, result.device->index);
      state.monitor.see(*result.after);
      // The link may sleep at a low generation by now; the highest generation seen is the one that the case ran at.
      result.after->pcie_generation = state.monitor.pcie_generation;
      for (const auto& reason : state.monitor.throttle_reasons) {
        if (!invalidates_samples(reason))
          result.warn("clocks_held", "the device throttled its clocks while sampling (" + reason + ")");
      }
      warn_about_state(result, *result.before, *result.after);
      for (auto& other : result.other_devices) {
        device::refresh(other.after, other.info.index);
        warn_about_state(result, other.before, other.after);
      }
    }
    warn_about_host(result, context.governor);
    judge_ranges(result);
    conclude_verification(result, state);
    conclude_samples(result);
    set_limits(result, state.emulated, state.monitor);
    result.accounted = state.account.accounted();
  }
  result.wall = now() - begin;
  return result;
}

}  // namespace

CaseResult run_case(const CaseSpec& spec, const RunContext& context) {
  Team team(context.ranks != nullptr ? *context.ranks : alone(), interrupted);
  const auto begin = processor_time();
  auto result = run_on_this_rank(spec, context, team);
  result.stolen_share = stolen_share(begin, processor_time());
  team.end();
  if (context.ranks != nullptr) share_outcome(result, *context.ranks);
  mark_interrupted(result);
  return result;
}

CaseFootprint footprint(const CaseSpec& spec, const RunContext& context) {
  CaseFootprint found;
  if (const auto skip = reason_to_skip(spec, context)) {
    found.skipped = skip->what();
    return found;
  }
  const auto result = outline(spec, context, found);
  found.traffic = result.traffic;
  found.skipped = result.skipped;
  found.failed = result.error;
  return found;
}

}  // namespace isthmus::harness
