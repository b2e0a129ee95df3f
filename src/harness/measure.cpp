// The readings of Case::measure(): phased and overlapped, cold and warm (docs/method.md).
//
// An allocation cycle is: host_alloc, host_touch, inputs, device_alloc, a cold pass, warm passes, free. A pass puts
// everything back to its start, then runs in, kernel and out with a wait between them. in, kernel, out and overlapped
// are sampled in the last cycle only, since allocating is slow.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/range.hpp"
#include "harness/case_state.hpp"
#include "harness/interrupt.hpp"
#include "harness/statistics.hpp"

namespace isthmus::harness {

namespace {

using memory::Travel;
using Next = device::SpinLatch::Next;

/// What one pass took. Times are per operation; those of the clock include submission and wait.
struct Pass {
  std::optional<double> in, kernel, out;
  double in_clock = 0, kernel_clock = 0, out_clock = 0;
  bool spoilt = false;

  double clock() const { return in_clock + kernel_clock + out_clock; }
};

/// What one allocation cycle took; absent where the placement has no such step.
struct Allocation {
  std::optional<double> host, device;
  double touch = 0;
  double host_free = 0, device_free = 0;
};

class Measurement {
 public:
  Measurement(Case::State& state, const std::function<void(const Launch&)>& body)
      : s_(state),
        body_(body),
        placement_(*state.spec.placement),
        set_(*state.set),
        stream_(*state.stream),
        units_{0, std::max<std::size_t>(state.chunk_units, 1)} {
    for (const auto& buffer : s_.buffers) {
      const auto role = buffer.spec.role;
      if (role != memory::Role::output) in_bytes_ += buffer.spec.bytes;
      if (role != memory::Role::input) out_bytes_ += buffer.spec.bytes;
      has_inout_ |= role == memory::Role::inout;
    }
    has_in_ = in_bytes_ > 0 && memory::travel_in(placement_) != Travel::none;
    has_out_ = out_bytes_ > 0 && memory::travel_out(placement_) != Travel::none;
    out_by_clock_ = memory::travel_out(placement_) == Travel::host_access;
    overlapped_by_clock_ = out_by_clock_ || memory::travel_in(placement_) == Travel::blocking ||
                           memory::travel_out(placement_) == Travel::blocking;
    latch_ = s_.wants_latch();
    latch_copies_ = latch_ && !set_.copies_block();
    streamed_ = placement_ == memory::Placement::streamed;
    if (streamed_) {
      chunks_ = memory::cut(s_.chunk_units, s_.sampling.chunks);
    }
  }

  void run() {
    device::load_kernels();  // lazy loading could deadlock behind the latch
    const int most_cycles = std::min(s_.most_samples(), s_.sampling.allocation_cycles);
    for (int cycle = 1;; ++cycle) {
      allocate();
      Pass pass = cold_pass(cycle == 1);
      // One more cycle costs about what this one did; sampling needs the larger part of the budget.
      const bool last = cycle >= most_cycles || s_.over_budget(0.25) || interrupted() || s_.verifier.failed();
      if (last) {
        allocation_stop_ = interrupted()                         ? Stop::interrupted
                           : s_.emulated && !s_.sampling.samples ? Stop::emulated
                           : cycle >= most_cycles                ? Stop::samples
                                                                 : Stop::budget;
        if (const auto sampled = sample(pass)) pass = *sampled;
        passes_.push_back(pass);
        return;  // the buffers stay until the case ends: checks may still come
      }
      pass = timed_pass(s_.account.samples);
      verify(false);
      passes_.push_back(pass);
      free();
    }
  }

  /// Frees the last cycle's buffers and writes down what spans cycles.
  void finish() {
    free();
    report_allocation();
    report_totals();
    report_rates();
  }

 private:
  // --- phases ------------------------------------------------------------------------------------

  template <class Body>
  double clocked(const char* name, Body body) {
    const device::Range range(name);
    const Accounted sampling(s_.account.samples);
    const double begin = now();
    body();
    return now() - begin;
  }

  void allocate() {
    Allocation a;
    const bool one_call = memory::host_allocation_is_device_allocation(placement_);
    const double host = clocked("host_alloc", [&] { set_.allocate_host(); });
    a.touch = clocked("host_touch", [&] { set_.touch_host(); });
    {
      const Accounted inputs(s_.account.inputs);
      for (std::size_t i = 0; i < s_.buffers.size(); ++i) s_.fill(i);
      dirty_ = false;
    }
    const double device = clocked("device_alloc", [&] {
      set_.allocate_device(stream_);
      stream_.synchronize();
    });
    // Managed memory is the device runtime's on both sides; what it costs counts as device allocation.
    if (one_call) {
      a.device = host + device;
    } else {
      a.host = host;
      if (memory::has_two_copies(placement_)) a.device = device;
    }
    s_.result.peak_device_bytes = std::max(s_.result.peak_device_bytes, set_.device_bytes());
    allocations_.push_back(a);
  }

  void free() {
    auto& a = allocations_.back();
    a.device_free = clocked("free", [&] {
      set_.free_device(stream_);
      stream_.synchronize();
    });
    a.host_free = clocked("free", [&] { set_.free_host(); });
    if (memory::host_allocation_is_device_allocation(placement_)) {
      a.device_free += a.host_free;
      a.host_free = 0;
    }
  }

  /// Poison and fresh inputs where the last pass left results, and cold caches.
  void reset() {
    {
      const Accounted verifying(s_.account.verifying);
      set_.reset(stream_);
    }
    const Accounted inputs(s_.account.inputs);
    for (std::size_t i = 0; dirty_ && i < s_.buffers.size(); ++i) {
      if (s_.buffers[i].spec.role == memory::Role::inout) s_.fill(i);
    }
    dirty_ = false;
    flush_caches();
  }

  /// On a host whose inputs lay modified in the caches of 16 cores, a 1 MiB copy to the device took 20 to 190 us.
  void flush_caches() {
    if (!set_.flush_host_caches())
      s_.result.warn("caches_not_flushed", "this CPU lets no program flush its caches: small copies may read them");
  }

  void verify(bool fully) {
    const Accounted verifying(s_.account.verifying);
    fully ? s_.verifier.check_fully(set_) : s_.verifier.check_sample(set_);
  }

  // --- one reading -------------------------------------------------------------------------------

  /// Lets the stream go even when queueing throws: what waits behind a latch would wait for its time-out.
  struct Held {
    Held(device::SpinLatch& latch, device::Stream& stream, double timeout, bool wanted, Next next)
        : latch_(wanted ? &latch : nullptr) {
      if (latch_ != nullptr) latch_->hold(stream, timeout, next);
    }
    ~Held() {
      try {
        release();
      } catch (const std::exception&) {  // already on the way out with a first failure
      }
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    void release() {
      if (auto* latch = std::exchange(latch_, nullptr)) latch->release();
    }
    device::SpinLatch* latch_;
  };

  // Only copies between two allocations run on a copy engine; everything else is left to start as it does.
  Next next_in() const { return has_in_ && memory::has_two_copies(placement_) ? Next::copy_in : Next::kernel; }
  Next next_out() const { return has_out_ && memory::has_two_copies(placement_) ? Next::copy_out : Next::kernel; }

  /// Seconds on the stream between two events around `batch` times what `queue` queues.
  template <class Queue>
  double event_timed(bool latched, Next next, int batch, bool& spoilt, Queue queue) {
    {
      Held held(spin_latch_, stream_, s_.sampling.latch_timeout, latched, next);
      begin_.record(stream_);
      for (int i = 0; i < batch; ++i) queue();
      end_.record(stream_);
      held.release();
    }
    stream_.synchronize();
    if (latched && spin_latch_.timed_out()) spoilt = true;
    return device::elapsed(begin_, end_) / batch;
  }

  Pass timed_pass(double& part) {
    reset();
    const Accounted accounted(part);
    Pass pass;
    dirty_ = true;
    double mark = now();
    const auto lap = [&](int batch) {
      const double begin = std::exchange(mark, now());
      return (mark - begin) / batch;
    };
    if (has_in_) {
      const device::Range range("in");
      pass.in =
          event_timed(latch_copies_, next_in(), in_batch_, pass.spoilt, [&] { in_moved_ = set_.copy_in(stream_); });
      pass.in_clock = lap(in_batch_);
    } else {
      set_.copy_in(stream_);
    }
    if (!placement_checked_) {
      placement_checked_ = true;
      for (auto& sentence : set_.disagreements()) s_.result.warn("placement_disagrees", std::move(sentence));
      mark = now();
    }
    {
      const device::Range range("kernel");
      pass.kernel = event_timed(latch_, Next::kernel, kernel_batch_, pass.spoilt, [&] { body_({stream_, units_}); });
      pass.kernel_clock = lap(kernel_batch_);
    }
    if (kernel_batch_ > 1 && has_inout_) {
      // The batch has applied the kernel to its own results; out must carry those of one run.
      set_.copy_in(stream_);
      body_({stream_, units_});
      stream_.synchronize();
      mark = now();
    }
    if (has_out_ && out_by_clock_) {
      const device::Range range("out");
      out_moved_ = set_.copy_out(stream_);
      pass.out = pass.out_clock = lap(1);
    } else if (has_out_) {
      const device::Range range("out");
      pass.out =
          event_timed(latch_copies_, next_out(), out_batch_, pass.spoilt, [&] { out_moved_ = set_.copy_out(stream_); });
      pass.out_clock = lap(out_batch_);
    }
    return pass;
  }

  /// in, kernel and out with no wait between them; `streamed` cuts them into chunks on three streams.
  double timed_overlapped(double& part, bool& spoilt) {
    reset();
    const device::Range range("overlapped");
    const Accounted accounted(part);
    dirty_ = true;
    if (overlapped_by_clock_) {
      const double begin = now();
      set_.copy_in(stream_);
      body_({stream_, units_});
      set_.copy_out(stream_);
      stream_.synchronize();
      return now() - begin;
    }
    if (streamed_) return timed_streamed(spoilt);
    return event_timed(latch_copies_, next_in(), overlapped_batch_, spoilt, [&] {
      set_.copy_in(stream_);
      body_({stream_, units_});
      set_.copy_out(stream_);
    });
  }

  /// Copies in, kernels and copies out each have a stream; chunk k's kernel waits for its copy in, its copy out for its
  /// kernel. Each stream is in order, so a kernel also finds all that earlier chunks brought.
  double timed_streamed(bool& spoilt) {
    if (!kernels_stream_) {
      kernels_stream_.emplace();
      out_stream_.emplace();
      brought_.resize(chunks_.size());
      computed_.resize(chunks_.size());
    }
    {
      Held held(spin_latch_, stream_, s_.sampling.latch_timeout, latch_, next_in());
      begin_.record(stream_);
      for (std::size_t k = 0; k < chunks_.size(); ++k) {
        set_.copy_in(stream_, chunks_[k], k == 0);
        brought_[k].record(stream_);
        kernels_stream_->wait(brought_[k]);
        body_({*kernels_stream_, chunks_[k]});
        computed_[k].record(*kernels_stream_);
        out_stream_->wait(computed_[k]);
        set_.copy_out(*out_stream_, chunks_[k], k + 1 == chunks_.size());
      }
      end_.record(*out_stream_);
      held.release();
    }
    out_stream_->synchronize();
    if (latch_ && spin_latch_.timed_out()) spoilt = true;
    return device::elapsed(begin_, end_);
  }

  // --- sampling ----------------------------------------------------------------------------------

  Pass cold_pass(bool first) {
    Pass pass = timed_pass(s_.account.warmups);
    if (first) {
      const auto report = [&](std::string_view name, const std::optional<double>& value, std::string_view timer) {
        if (value) add(name, timer).samples.push_back(*value);
      };
      report("first_in", pass.in, "event");
      report("first_kernel", pass.kernel, "event");
      report("first_out", pass.out, out_by_clock_ ? "clock" : "event");
    }
    verify(false);
    return pass;
  }

  /// How many operations make a sample of enough ticks.
  int batch_for(std::optional<double> seconds, bool repeatable) const {
    if (!seconds || !repeatable || s_.emulated) return 1;
    const double wanted = s_.sampling.least_ticks * device::timer_tick();
    return static_cast<int>(
        std::clamp(std::ceil(wanted / std::max(*seconds, 1e-9)), 1.0, static_cast<double>(s_.sampling.largest_batch)));
  }

  void choose_batches(const Pass& pass) {
    // A second prefetch or page fault finds everything in place; only copies and kernels on two copies repeat.
    const bool copies = memory::has_two_copies(placement_);
    in_batch_ = batch_for(pass.in, copies);
    kernel_batch_ = batch_for(pass.kernel, copies || placement_ == memory::Placement::mapped);
    if (has_inout_ && !copies) kernel_batch_ = 1;
    out_batch_ = batch_for(pass.out, copies && !out_by_clock_);
    const double whole = pass.in.value_or(0) + pass.kernel.value_or(0) + pass.out.value_or(0);
    overlapped_batch_ = batch_for(whole, copies && !has_inout_ && !overlapped_by_clock_ && !streamed_);
  }

  /// Samples the phased and then the overlapped reading; returns the last good pass.
  std::optional<Pass> sample(const Pass& cold) {
    if (s_.verifier.failed()) return std::nullopt;
    const bool reuse_cold = s_.emulated && !s_.sampling.samples && s_.warmups() == 0;
    Pass pass = cold;
    for (int i = 0; i < s_.warmups() && !interrupted() && !s_.verifier.failed(); ++i) {
      pass = timed_pass(s_.account.warmups);
      verify(false);
    }
    choose_batches(pass);

    Series in, kernel, out;
    std::vector<std::size_t> late;       // samples whose latch gave up
    std::vector<std::size_t> throttled;  // samples during a slow-down
    std::optional<Pass> last;
    s_.sampling_begins();
    std::optional<Stop> stop;
    while (!stop && !s_.verifier.failed() && !interrupted()) {
      pass = reuse_cold ? cold : timed_pass(s_.account.samples);
      if (!pass.spoilt || !last) last = pass;
      if (pass.in) in.samples.push_back(*pass.in);
      kernel.samples.push_back(*pass.kernel);
      if (pass.out) out.samples.push_back(*pass.out);
      const std::size_t index = kernel.samples.size() - 1;
      if (pass.spoilt) late.push_back(index);
      const auto settled = [](const Series& series) {
        return series.samples.empty() || median_is_settled(series.samples);
      };
      stop =
          s_.stop(index + 1, s_.most_samples(), [&] { return settled(kernel) && settled(in) && settled(out); }, 0.75);
      for (const auto spoilt : s_.monitor.sample_done(index, stop.has_value())) throttled.push_back(spoilt);
      verify(stop.has_value());
    }
    if (!stop) stop = Stop::interrupted;
    std::vector<std::size_t> invalid = late;
    invalid.insert(invalid.end(), throttled.begin(), throttled.end());
    std::sort(invalid.begin(), invalid.end());
    invalid.erase(std::unique(invalid.begin(), invalid.end()), invalid.end());
    if (!late.empty())
      s_.result.warn("latch_timeout", "the latch that holds the stream gave up before all was queued", late);
    if (!throttled.empty())
      s_.result.warn("throttled", "the device slowed itself down while samples were taken", throttled);

    const auto report = [&](std::string_view name, std::string_view timer, Series& series, int batch,
                            std::size_t needed, std::size_t moved, std::string_view direction) {
      if (series.samples.empty()) return;
      Series& metric = add(name, timer);
      metric.samples = std::move(series.samples);
      metric.invalid = invalid;
      metric.stop = *stop;
      metric.warmups = s_.warmups();
      metric.batch = batch;
      metric.direction = direction;
      if (needed > 0) metric.bytes_needed = static_cast<double>(needed);
      if (moved > 0) metric.bytes_moved = static_cast<double>(moved);
      s_.judge_ticks(metric);
    };
    report("in", "event", in, in_batch_, in_bytes_, in_moved_, "h2d");
    report("kernel", "event", kernel, kernel_batch_, 0, 0, "");
    report("out", out_by_clock_ ? "clock" : "event", out, out_batch_, out_bytes_, out_moved_, "d2h");
    if (set_.copies_block() && (has_in_ || has_out_))
      s_.result.warn("latch_exempt",
                     "copies of this placement synchronise with the host or may, so no latch holds the stream and "
                     "their times include submission");
    if (!interrupted() && !s_.verifier.failed()) sample_overlapped();
    if (interrupted()) s_.result.interrupted = true;
    return last;
  }

  void sample_overlapped() {
    Series overlapped;
    std::vector<std::size_t> late, throttled;
    if (s_.warmups() > 0) {
      bool spoilt = false;
      timed_overlapped(s_.account.warmups, spoilt);
      verify(false);
    }
    s_.sampling_begins();
    std::optional<Stop> stop;
    while (!stop && !s_.verifier.failed()) {
      bool spoilt = false;
      overlapped.samples.push_back(timed_overlapped(s_.account.samples, spoilt));
      const std::size_t index = overlapped.samples.size() - 1;
      if (spoilt) late.push_back(index);
      stop = s_.stop(index + 1, std::min(s_.most_samples(), s_.sampling.most_overlapped),
                     [&] { return median_is_settled(overlapped.samples); });
      for (const auto bad : s_.monitor.sample_done(index, stop.has_value())) throttled.push_back(bad);
      verify(stop.has_value());
    }
    Series& metric = add("overlapped", overlapped_by_clock_ ? "clock" : "event");
    metric.samples = std::move(overlapped.samples);
    metric.stop = stop.value_or(Stop::samples);
    metric.warmups = std::min(s_.warmups(), 1);
    metric.batch = overlapped_batch_;
    metric.invalid = late;
    metric.invalid.insert(metric.invalid.end(), throttled.begin(), throttled.end());
    std::sort(metric.invalid.begin(), metric.invalid.end());
    metric.invalid.erase(std::unique(metric.invalid.begin(), metric.invalid.end()), metric.invalid.end());
    if (!late.empty())
      s_.result.warn("latch_timeout", "the latch that holds the stream gave up in the overlapped reading", late);
    if (!throttled.empty())
      s_.result.warn("throttled", "the device slowed itself down during the overlapped reading", throttled);
    s_.judge_ticks(metric);
    measure_sync_cost();
  }

  /// The same three brackets with nothing in them.
  void measure_sync_cost() {
    const int samples = s_.emulated ? 1 : 10;
    Series& metric = add("sync_cost", overlapped_by_clock_ ? "clock" : "event");
    metric.stop = s_.emulated ? Stop::emulated : Stop::samples;
    const Accounted sampling(s_.account.samples);
    for (int i = 0; i < samples; ++i) {
      bool spoilt = false;
      double sum = 0;
      const auto nothing = [] {};
      if (has_in_) sum += event_timed(latch_copies_, next_in(), 1, spoilt, nothing);
      sum += event_timed(latch_, Next::kernel, 1, spoilt, nothing);
      if (has_out_ && out_by_clock_) {
        const double begin = now();
        stream_.synchronize();
        sum += now() - begin;
      } else if (has_out_) {
        sum += event_timed(latch_copies_, next_out(), 1, spoilt, nothing);
      }
      metric.samples.push_back(sum);
    }
  }

  // --- reporting ---------------------------------------------------------------------------------

  Series& add(std::string_view name, std::string_view timer) {
    Series& metric = s_.result.metrics.emplace_back();
    metric.name = name;
    metric.timer = timer;
    metric.tick = timer_tick(timer);
    return metric;
  }

  void report_allocation() {
    const auto report = [&](std::string_view name, auto value_of) {
      std::vector<double> values;
      for (const auto& allocation : allocations_) {
        if (const std::optional<double> value = value_of(allocation)) values.push_back(*value);
      }
      if (values.empty()) return;
      Series& metric = add(name, "clock");
      metric.samples = std::move(values);
      metric.stop = allocation_stop_;
    };
    report("host_alloc", [](const Allocation& a) { return a.host; });
    report("host_touch", [](const Allocation& a) { return std::optional(a.touch); });
    report("device_alloc", [](const Allocation& a) { return a.device; });
    report("free", [](const Allocation& a) { return std::optional(a.host_free + a.device_free); });
  }

  void report_totals() {
    std::vector<double> wall, paper;
    for (std::size_t i = 0; i < std::min(passes_.size(), allocations_.size()); ++i) {
      const auto& a = allocations_[i];
      const auto& pass = passes_[i];
      wall.push_back(a.host.value_or(0) + a.touch + a.device.value_or(0) + pass.clock() + a.device_free + a.host_free);
      paper.push_back(pass.in.value_or(0) + pass.kernel.value_or(0) + pass.out.value_or(0) + a.device.value_or(0) +
                      a.device_free);
    }
    if (wall.empty()) return;
    Series& total = add("wall", "clock");
    total.samples = std::move(wall);
    total.stop = allocation_stop_;
    Series& paper_total = add("paper_total", "none");
    paper_total.samples = std::move(paper);
    paper_total.stop = Stop::derived;
  }

  void add_rate(std::string_view name, std::string_view of, double amount, std::string_view unit) {
    const Series* source = s_.result.find(of);
    if (source == nullptr || !(amount > 0)) return;
    const Series times = *source;
    if (std::any_of(times.samples.begin(), times.samples.end(), [](double t) { return !(t > 0); })) return;
    Series& rate = add(name, "none");
    rate.unit = unit;
    rate.better = Better::higher;
    rate.direction = times.direction;
    rate.bytes_needed = times.bytes_needed;
    rate.bytes_moved = times.bytes_moved;
    for (const double seconds : times.samples) rate.samples.push_back(amount / seconds);
    rate.invalid = times.invalid;
    rate.stop = Stop::derived;
    rate.warmups = times.warmups;
    rate.batch = times.batch;
    rate.coarse = times.coarse;
  }

  void report_rates() {
    const auto& traffic = s_.result.traffic;
    add_rate("in_rate", "in", static_cast<double>(in_moved_), "B/s");
    add_rate("out_rate", "out", static_cast<double>(out_moved_), "B/s");
    add_rate("kernel_rate", "kernel", traffic.bytes_read + traffic.bytes_written, "B/s");
    add_rate("kernel_flop_rate", "kernel", traffic.flops, "FLOP/s");
    report_overlap();
  }

  void report_overlap() {
    const auto middle = [&](std::string_view name) {
      const Series* metric = s_.result.find(name);
      const auto values = metric != nullptr ? metric->valid() : std::vector<double>{};
      return values.empty() ? std::optional<double>() : std::optional(median(values));
    };
    const auto in = middle("in"), kernel = middle("kernel"), out = middle("out");
    const auto overlapped = middle("overlapped"), sync = middle("sync_cost");
    if (!kernel || !overlapped || !sync || (has_in_ && !in) || (has_out_ && !out)) return;
    const double longest = std::max({in.value_or(0), *kernel, out.value_or(0)});
    const double sum = in.value_or(0) + *kernel + out.value_or(0);
    if (!(sum > longest)) return;  // one phase alone: nothing could overlap
    Series& overlap = add("overlap", "none");
    overlap.unit = "1";
    overlap.better = Better::higher;
    overlap.samples = {(sum - *sync - *overlapped) / (sum - longest)};
    overlap.stop = Stop::derived;
  }

  Case::State& s_;
  const std::function<void(const Launch&)> body_;  // a copy: finish() outlives the call of measure()
  const memory::Placement placement_;
  memory::BufferSet& set_;
  device::Stream& stream_;
  const memory::Range units_;

  std::size_t in_bytes_ = 0, out_bytes_ = 0;  // that must travel
  std::size_t in_moved_ = 0, out_moved_ = 0;  // that were asked to
  bool has_inout_ = false, has_in_ = false, has_out_ = false;
  bool out_by_clock_ = false, overlapped_by_clock_ = false, streamed_ = false;
  bool latch_ = true, latch_copies_ = false;
  bool dirty_ = false;  // in-place results lie where inputs should
  bool placement_checked_ = false;
  int in_batch_ = 1, kernel_batch_ = 1, out_batch_ = 1, overlapped_batch_ = 1;

  device::SpinLatch spin_latch_;
  device::Event begin_, end_;
  std::vector<memory::Range> chunks_;
  std::optional<device::Stream> kernels_stream_, out_stream_;
  std::vector<device::Event> brought_, computed_;

  std::vector<Allocation> allocations_;
  std::vector<Pass> passes_;  // one per allocation cycle
  Stop allocation_stop_ = Stop::samples;
};

}  // namespace

void Case::State::run_measurement(const std::function<void(const Launch&)>& body) {
  if (!spec.placement)
    throw std::logic_error(spec.workload->name() + " calls measure() but is registered without placements");
  if (spec.placement == memory::Placement::streamed && chunk_units == 0)
    throw Skip(spec.workload->name() + " cannot be cut into chunks", SkipKind::not_applicable);
  std::vector<memory::BufferSpec> specs;
  for (const auto& buffer : buffers) specs.push_back(buffer.spec);
  set = std::make_unique<memory::BufferSet>(*spec.placement, std::move(specs),
                                            memory::PlacementOptions{result.numa_node, device ? device->index : 0});
  check_footprint(set->host_bytes(), set->device_bytes());
  if (footprint_only) throw FootprintKnown{};
  set_pointer = set.get();
  if (!stream) stream.emplace();
  const auto measurement = std::make_shared<Measurement>(*this, body);
  measurement->run();
  measured = true;
  {
    const Accounted verifying(account.verifying);
    verifier.check_own();
  }
  finish = [measurement] { measurement->finish(); };
}

}  // namespace isthmus::harness
