#include "harness/measure/passes/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "harness/measure/inputs/inputs.hpp"
#include "harness/measure/passes/sampler.hpp"
#include "harness/plan/modes.hpp"
#include "harness/ranks/interrupt.hpp"
#include "paging/pager.hpp"
#include "workload/clock.hpp"
#include "workload/paged.hpp"

namespace isthmus::harness {

Measurement::Measurement(CaseState& state, Control control, std::function<void(Run&)> body)
    : s_(state),
      latched_(s_.wants_latch()),
      placement_(*s_.spec.placement),
      body_(s_, control, std::move(body), latched_),
      passes_(s_, body_, latched_) {
  if (InputPhase::is_in(s_)) input_phase_.emplace(s_);
}

bool Measurement::ended() const {
  return interrupted() || s_.verifier.failed();
}

bool Measurement::takes_no_samples() const {
  return s_.emulated && !s_.sampling.samples && s_.warmups() == 0 && s_.asked_observers.empty();
}

void Measurement::run() {
  device::load_kernels();  // lazy loading could deadlock behind the latch
  const int most_cycles = std::min(s_.most_samples(), s_.sampling.allocation_cycles);
  memory_peak_.emplace([this] { return memory_in_use(s_.device_info); });
  for (int cycle = 1;; ++cycle) {
    allocate();
    const Pass cold = cold_pass(cycle == 1);
    auto& pass = allocations_.back().pass;
    // One more cycle costs about as much as this one; sampling needs the larger part of the budget.
    if (cycle >= most_cycles || s_.over_budget(0.25) || ended()) {
      allocation_stop_ = interrupted()                         ? Stop::interrupted
                         : s_.emulated && !s_.sampling.samples ? Stop::emulated
                         : cycle >= most_cycles                ? Stop::samples
                                                               : Stop::budget;
      pass = sample_phased(cold).value_or(cold);
      if (!ended()) sample_overlapped();
      if (!ended()) sample_nothing();
      s_.result.interrupted |= interrupted();
      return;  // the buffers stay until the case ends, because more checks may be declared
    }
    pass = passes_.phased(Part::samples, 0);
    verify(false);
    free();
  }
}

// --- allocation cycles -----------------------------------------------------------------------------

namespace {

template <class Step>
double clocked(CaseState& state, const char* name, Step step) {
  const ScopedPhase piece(state, name, Part::samples);
  const double begin = now();
  step();
  return now() - begin;
}

}  // namespace

void Measurement::allocate() {
  auto& set = *s_.set;
  auto& stream = *s_.stream;
  Allocation a;
  const double host = clocked(s_, "host_alloc", [&] { set.allocate_host(); });
  s_.end_if_over_budget("allocating host memory");
  a.touch = clocked(s_, "host_touch", [&] { set.touch_host(); });
  s_.end_if_over_budget("touching host memory");
  {
    const ScopedPhase inputs(s_, "", Part::inputs);
    for (std::size_t i = 0; i < s_.declared.buffers.size(); ++i) {
      if (!input_phase_ || !input_phase_->reads(i)) s_.fill(i);
      s_.end_if_over_budget("making the inputs");
    }
    passes_.allocated();
  }
  if (input_phase_) a.file = input_phase_->read();
  double allocated = clocked(s_, "device_alloc", [&] {
    set.allocate_device(stream);
    stream.synchronize();
  });
  if (placement_->paged) {
    a.paging = clocked(s_, "device_alloc", [&] { set.prepare(stream); });
    allocated += *a.paging;
  }
  // The device runtime allocates both sides of managed memory, so their cost counts as device allocation.
  if (placement_->host_memory_is_devices()) {
    a.device = host + allocated;
  } else {
    a.host = host;
    if (placement_->two_memories()) a.device = allocated;
  }
  s_.end_if_over_budget("allocating device memory");
  set_driver_prefetch(a);
  a.graph = body_.capture(stream);
  s_.result.peak_device_bytes = std::max(s_.result.peak_device_bytes, set.device_bytes());
  allocations_.push_back(a);
}

void Measurement::set_driver_prefetch(Allocation& allocation) {
  const auto value = s_.driver_prefetch();
  if (!value) return;
  driver_prefetch_.emplace(*value);
  for (std::size_t i = 0; i < s_.declared.buffers.size(); ++i) {
    const auto& spec = s_.declared.buffers[i].spec;
    if (spec.role != memory::Role::scratch && spec.role != memory::Role::host)
      driver_prefetch_->set(s_.set->host(i), spec.bytes);
  }
  allocation.driver_prefetch = driver_prefetch_->seconds();
}

void Measurement::free() {
  auto& a = allocations_.back();
  driver_prefetch_.reset();
  a.device_free = clocked(s_, "free", [&] {
    s_.set->free_device(*s_.stream);
    s_.stream->synchronize();
  });
  a.host_free = clocked(s_, "free", [&] { s_.set->free_host(); });
  if (placement_->host_memory_is_devices()) {
    a.device_free += a.host_free;
    a.host_free = 0;
  }
}

void Measurement::verify(bool fully) {
  const ScopedPhase verifying(s_, "", Part::verifying);
  fully ? s_.verifier.check_fully(*s_.set) : s_.verifier.check_sample(*s_.set);
}

Pass Measurement::cold_pass(bool first) {
  const bool several = body_.waits() || body_.recorder().work_items() > 1;
  if (first && several && takes_no_samples()) {
    body_.recorder().watch(RunRecorder::Watching::timing);  // the only pass, so its pieces are timed now
  } else if (first && body_.waits()) {
    body_.recorder().watch(RunRecorder::Watching::counting);
  }
  const auto look = [&] {
    if (first) memory_peak_->look();
  };
  look();
  const Pass pass = passes_.phased(Part::warmups, 0);
  look();
  body_.recorder().watch(RunRecorder::Watching::nothing);
  if (first) {
    const auto report = [&](std::string_view name, const std::optional<double>& value, std::string_view timer) {
      if (!value) return;
      auto& series = s_.result.add(name, timer);
      series.samples = {*value};
      if (pass.invalid) series.invalid = {0};
    };
    report("first_in", pass.in, "event");
    report("first_kernel", pass.kernel, passes_.kernel_timer());
    report("first_out", pass.out, passes_.out_timer());
  }
  verify(false);
  return pass;
}

// --- sampling --------------------------------------------------------------------------------------

void Measurement::measure_work_items() {
  const auto work_items = body_.recorder().work_items();
  if (work_items == 0 || (work_items == 1 && !body_.waits())) return;  // the only piece of work is the kernel phase
  if (body_.recorder().work_seconds()) return;
  body_.recorder().watch(RunRecorder::Watching::timing);
  passes_.phased(Part::warmups, 0);
  body_.recorder().watch(RunRecorder::Watching::nothing);
  verify(false);
}

/// Samples the phased reading and returns its last valid pass.
std::optional<Pass> Measurement::sample_phased(const Pass& cold) {
  if (s_.verifier.failed()) return std::nullopt;
  Pass pass = cold;
  measure_work_items();
  int warmups = 0;
  for (; warmups < s_.warmups() && !ended() && !s_.asked_budget_is_over(); ++warmups) {
    pass = passes_.phased(Part::warmups, static_cast<std::size_t>(warmups));
    verify(false);
  }
  if (ended()) return std::nullopt;
  passes_.choose_batches(pass);

  std::vector<Series> all;
  const auto declare = [&](std::string_view name, std::string_view timer, int batch) {
    auto& series = all.emplace_back(Series::of(name, timer));
    series.warmups = warmups;
    series.batch = batch;
  };
  const auto& batches = passes_.batches();
  const bool repeats = body_.repeats() > 1;
  if (passes_.has_in()) declare("in", "event", batches.in);
  declare("kernel", passes_.kernel_timer(), batches.kernel);
  if (passes_.has_out()) declare("out", passes_.out_timer(), batches.out);
  if (repeats) declare("first_repeat", "event", 1);
  if (repeats) declare("later_repeat", "event", 1);

  std::optional<Pass> good;
  const auto take = [&](std::size_t index) {
    // The cold pass may have been timed piece by piece, which does not separate one repeat from the others.
    pass = takes_no_samples() && !repeats ? cold : passes_.phased(Part::samples, index);
    if (!pass.invalid) good = pass;
    Taken taken;
    if (passes_.has_in()) taken.values.push_back(*pass.in);
    taken.values.push_back(*pass.kernel);
    if (passes_.has_out()) taken.values.push_back(*pass.out);
    if (repeats) taken.values.insert(taken.values.end(), {pass.repeats->first, pass.repeats->second});
    if (pass.invalid)
      taken.invalid.push_back(
          {"latch_timeout", "the latch that holds the stream timed out before everything was queued", {}});
    return taken;
  };
  const auto go_on = [&](bool last) {
    verify(last);
    return !ended();
  };
  sample_all(s_, all, {.most = s_.most_samples(), .budget_share = 0.75, .go_on = go_on}, take);
  const auto carry = [&](std::string_view name, std::string_view direction, std::size_t needed, std::size_t moved) {
    for (auto& series : all) {
      if (series.name != name) continue;
      series.direction = direction;
      if (needed > 0) series.bytes_needed = static_cast<double>(needed);
      if (moved > 0) series.bytes_moved = static_cast<double>(moved);
    }
  };
  carry("in", "h2d", passes_.in_bytes(), passes_.in_moved());
  carry("out", "d2h", passes_.out_bytes(), passes_.out_moved());
  for (auto& series : all) s_.result.metrics.push_back(std::move(series));
  if (s_.set->copies_block() && (passes_.has_in() || passes_.has_out()))
    s_.result.warn("latch_exempt",
                   "copies of this placement may synchronise with the host, so no latch holds the stream and their "
                   "times include submission");
  return good ? good : pass;
}

void Measurement::sample_overlapped() {
  if (s_.asked_budget_is_over()) {
    s_.result.warn("budget_over", "the budget ended before the overlapped measurement, which was left out");
    return;
  }
  if (s_.warmups() > 0) {
    bool invalid = false;
    passes_.overlapped(Part::warmups, 0, invalid);
    verify(false);
  }
  auto& series = s_.result.add("overlapped", passes_.overlapped_timer());
  series.warmups = std::min(s_.warmups(), 1);
  const auto take = [&](std::size_t index) {
    bool invalid = false;
    Taken taken{.values = {passes_.overlapped(Part::samples, index, invalid)},
                .invalid = {},
                .batch = passes_.batches().overlapped};
    if (invalid)
      taken.invalid.push_back(
          {"latch_timeout", "the latch that holds the stream timed out during the overlapped measurement", {}});
    return taken;
  };
  const auto go_on = [&](bool last) {
    verify(last);
    return !s_.verifier.failed();
  };
  const int most = std::min(s_.most_samples(), s_.sampling.most_overlapped);
  sample_all(s_, std::span(&series, 1), {.most = most, .go_on = go_on}, take);
}

void Measurement::sample_nothing() {
  constexpr int kSamples = 10;
  auto& series = s_.result.add("sync_cost", passes_.overlapped_timer());
  series.stop = s_.emulated ? Stop::emulated : Stop::samples;
  const ScopedPhase piece(s_, "", Part::samples);
  for (int i = 0; i < (s_.emulated ? 1 : kSamples); ++i) series.samples.push_back(passes_.nothing());
}

std::optional<std::string_view> CaseState::driver_prefetch() const {
  if (!spec.placement || !(*spec.placement)->managed() || spec.find(kDriverPrefetch) == nullptr) return std::nullopt;
  consult(kDriverPrefetch);
  const auto value = spec.choice(kDriverPrefetch);
  return value == kDriverPrefetchDefault ? std::nullopt : std::optional(value);
}

memory::PagingOptions CaseState::paging() const {
  const auto page = static_cast<std::size_t>(spec.integer(kPageAxis));
  if (!std::has_single_bit(page) || page > paging::kMostPage)
    throw Skip(fmt::format("{}={} is out of range: choose a power of two from 4 KiB to 2 MiB", kPageAxis, page),
               SkipKind::not_applicable);
  const auto queues = static_cast<std::size_t>(spec.integer(kQueuesAxis));
  const auto transport = spec.choice(kTransportAxis);
  if (queues > paging::kMostQueues)
    throw Skip(fmt::format("there are at most {} queues, and {} is {}", paging::kMostQueues, kQueuesAxis, queues),
               SkipKind::not_applicable);
  if (queues > 0 && paging::value_named(paging::kTransportNames, transport) == paging::Transport::pull)
    throw Skip(fmt::format("warps that fetch their own pages use no queues: omit {}={}, or choose another {}",
                           kQueuesAxis, queues, kTransportAxis),
               SkipKind::not_applicable);
  return {.page_bytes = page,
          .frames = static_cast<std::size_t>(spec.integer(kFramesAxis)),
          .eviction = spec.choice(kEvictionAxis),
          .transport = transport,
          .queues = queues};
}

void CaseState::measure(Control control, std::function<void(Run&)> body, const PagedBuffers& paged) {
  if (!spec.placement)
    throw std::logic_error(spec.workload->name() + " calls measure() but is registered without placements");
  if (spec.placement && (*spec.placement)->chunked && control == Control::waits)
    throw Skip(spec.workload->name() + " reads results during a pass, so it cannot be divided into chunks",
               SkipKind::not_applicable);
  if (spec.placement && (*spec.placement)->chunked && declared.chunk_units == 0)
    throw Skip(spec.workload->name() + " cannot be divided into chunks", SkipKind::not_applicable);
  const bool pages = (*spec.placement)->paged;
  if (pages && paged.indices.empty())
    throw Skip(spec.workload->name() + " has no kernels that fetch their own pages", SkipKind::not_applicable);
  for (const auto name : measured_metrics()) {
    if (result.find(name) != nullptr)
      throw std::logic_error(fmt::format("measure() already reports metric {}; rename that of the workload", name));
  }
  std::vector<memory::BufferSpec> specs;
  for (const auto& buffer : declared.buffers) specs.push_back(buffer.spec);
  for (const auto index : paged.indices) specs.at(index).paged = pages;
  set = std::make_unique<memory::BufferSet>(
      *spec.placement, std::move(specs),
      memory::PlacementOptions{result.numa_node, device_info ? device_info->index : 0,
                               pages ? this->paging() : memory::PagingOptions{}});
  const auto inputs = inputs_name();
  std::size_t shared_bytes = 0, there_already = 0;
  for (const auto& input : declared.shared_inputs) {
    shared_bytes += input.bytes;
    if (holds_shared_input(inputs, input.name)) there_already += input.bytes;
  }
  needed_host_bytes = set->host_bytes() + shared_bytes;
  needed_device_bytes = set->device_bytes();
  if (const auto value = driver_prefetch()) require_driver_prefetch(*value, set->host_bytes());
  check_footprint(needed_host_bytes - there_already, needed_device_bytes);
  InputPhase::check_room(*this);
  if (!stream) stream.emplace();
  if (footprint_only) {
    Body rehearsed(*this, control, std::move(body), false);
    result.traffic = rehearsed.recorder().traffic();
    throw FootprintKnown{};
  }
  for (const auto& input : declared.shared_inputs) {
    input.get();
    end_if_over_budget("making the inputs");
  }
  measurement = std::make_unique<Measurement>(*this, control, std::move(body));
  measurement->run();
  measured = true;
  const ScopedPhase verifying(*this, "", Part::verifying);
  verifier.check_own();
}

}  // namespace isthmus::harness
