// Reports that measure() makes once all passes are done.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/measure/passes/measurement.hpp"
#include "harness/measure/results/statistics.hpp"

namespace isthmus::harness {

namespace {

std::optional<double> median_of(const CaseResult& result, std::string_view name) {
  const auto* metric = result.find(name);
  const auto values = metric != nullptr ? metric->valid() : std::vector<double>{};
  return values.empty() ? std::optional<double>() : std::optional(median(values));
}

void add_rate(CaseResult& result, std::string_view name, std::string_view of, double amount, std::string_view unit) {
  const Series* source = result.find(of);
  if (source == nullptr || !(amount > 0)) return;
  Series rate = *source;
  if (std::any_of(rate.samples.begin(), rate.samples.end(), [](double t) { return !(t > 0); })) return;
  rate.name = name;
  rate.unit = unit;
  rate.timer = "none";
  rate.tick = 0;
  rate.better = Better::higher;
  rate.stop = Stop::derived;
  for (auto& value : rate.samples) value = amount / value;
  result.metrics.push_back(std::move(rate));
}

}  // namespace

void Measurement::finish() {
  report_counts();
  free();
  report_allocation();
  report_memory();
  report_file();
  report_totals();
  report_work();
  report_rates();
  report_overlap();
}

/// Reports the counts of the last pass.
void Measurement::report_counts() {
  for (const auto& count : s_.set->counts(*s_.stream)) {
    auto& series = s_.result.add(count.name, "none", count.unit);
    series.samples = {count.value};
    series.stop = Stop::derived;
    if (count.needed <= 0) continue;
    series.bytes_needed = count.needed;
    series.bytes_moved = count.value;
  }
}

void Measurement::report_allocation() {
  const auto report = [&](std::string_view name, auto value_of) {
    std::vector<double> values;
    for (const auto& allocation : allocations_) {
      if (const std::optional<double> value = value_of(allocation)) values.push_back(*value);
    }
    if (values.empty()) return;
    Series& metric = s_.result.add(name, "clock");
    metric.samples = std::move(values);
    metric.stop = allocation_stop_;
  };
  report("host_alloc", [](const Allocation& a) { return a.host; });
  report("host_touch", [](const Allocation& a) { return std::optional(a.touch); });
  report("device_alloc", [](const Allocation& a) { return a.device; });
  report("paging_setup", [](const Allocation& a) { return a.paging; });
  report(workload::kDriverPrefetchSetup, [](const Allocation& a) { return a.driver_prefetch; });
  report("graph_build", [](const Allocation& a) { return a.graph; });
  report("free", [](const Allocation& a) { return std::optional(a.free()); });
}

void Measurement::report_memory() {
  const auto bytes = memory_peak_->bytes();
  if (bytes) s_.result.add("memory_peak", "none", "B").samples = {*bytes};
}

void Measurement::report_file() {
  if (!input_phase_) return;
  auto& result = s_.result;
  Series file = Series::of("file", "clock"), resident = Series::of("file_resident", "none", "1");
  file.stop = resident.stop = allocation_stop_;
  resident.better = std::nullopt;
  for (const auto& allocation : allocations_) {
    file.samples.push_back(allocation.file->seconds);
    file.bytes_needed = file.bytes_moved = static_cast<double>(allocation.file->bytes);
    if (allocation.file->resident) resident.samples.push_back(*allocation.file->resident);
  }
  const double most = resident.samples.empty() ? 0 : std::ranges::max(resident.samples);
  if (resident.samples.empty())
    result.warn("file_cache_unknown",
                "the kernel reports cached pages only to users who may write the file, so the page cache may have "
                "contained it; read your own copy");
  else if (most > 0)
    result.warn("file_cached", fmt::format("the page cache contained up to {:.3g}% of the file before it was read, "
                                           "although the kernel was asked to drop it, so these samples do not measure "
                                           "the disk alone",
                                           100 * most));
  result.metrics.push_back(std::move(file));
  if (!resident.samples.empty()) result.metrics.push_back(std::move(resident));
}

void Measurement::report_totals() {
  auto& result = s_.result;
  Series wall, paper, total;
  for (std::size_t i = 0; i < allocations_.size(); ++i) {
    const auto& a = allocations_[i];
    const auto& pass = a.pass;
    if (!pass.kernel) continue;
    if (pass.invalid) wall.invalid.push_back(wall.samples.size());
    wall.samples.push_back(a.host.value_or(0) + a.touch + a.device.value_or(0) + pass.clock() + a.free());
    if (a.file) total.samples.push_back(a.file->seconds + wall.samples.back());
    paper.samples.push_back(pass.in.value_or(0) + *pass.kernel + pass.out.value_or(0) + a.device.value_or(0) +
                            a.device_free);
  }
  if (wall.samples.empty()) return;
  const auto report = [&](std::string_view name, std::string_view timer, Stop stop, std::vector<double> samples) {
    auto& series = result.add(name, timer);
    series.samples = std::move(samples);
    series.invalid = wall.invalid;
    series.stop = stop;
  };
  report("wall", "clock", allocation_stop_, std::move(wall.samples));
  if (!total.samples.empty()) report("total", "clock", allocation_stop_, std::move(total.samples));
  report("paper_total", "none", Stop::derived, std::move(paper.samples));
}

void Measurement::report_work() {
  auto& result = s_.result;
  const auto& recorder = body_.recorder();
  result.kernels = recorder.reports();
  result.traffic = recorder.traffic();
  result.submission = body_.submission();
  const auto kernel = median_of(result, "kernel");
  if (result.kernels.size() == 1 && result.kernels.front().launches == 1 && !body_.waits() && kernel) {
    result.kernels.front().seconds = kernel;
    result.kernels.front().timed = result.find("kernel")->valid().size();
  }
  const auto derived = [&](std::string_view name, double value, std::string_view unit = "s") {
    auto& series = result.add(name, "none", unit);
    series.samples = {value};
    series.stop = Stop::derived;
  };
  const auto alone = recorder.work_items() > 1 || body_.waits() ? recorder.work_seconds() : std::nullopt;
  if (alone) derived("kernel_sum", *alone);
  if (body_.waits()) {
    result.host_round_trips = recorder.host_round_trips();
    if (recorder.host_round_trips() > 0 && alone && kernel)
      derived("turn_cost", (*kernel - *alone) / static_cast<double>(recorder.host_round_trips()));
  }
  if (recorder.moved_in() > 0) derived("body_in", static_cast<double>(recorder.moved_in()), "B");
  if (recorder.moved_out() > 0) derived("body_out", static_cast<double>(recorder.moved_out()), "B");
}

void Measurement::report_rates() {
  auto& result = s_.result;
  const auto& traffic = result.traffic;
  if (const auto* file = result.find("file")) add_rate(result, "file_rate", "file", *file->bytes_moved, "B/s");
  add_rate(result, "in_rate", "in", static_cast<double>(passes_.in_moved()), "B/s");
  add_rate(result, "out_rate", "out", static_cast<double>(passes_.out_moved()), "B/s");
  add_rate(result, "kernel_rate", "kernel", traffic.bytes_read + traffic.bytes_written, "B/s");
  if (traffic.flops > 0 && !s_.spec.workload->description().flops)
    throw std::logic_error(s_.spec.workload->name() + " is registered with no_flops(), but declares some; remove one");
  add_rate(result, "kernel_flop_rate", "kernel", traffic.flops, "FLOP/s");
}

/// Reports the metric `overlap`. If the time that could be hidden is not large compared with the error of the measured
/// times, notes the reason instead.
void Measurement::report_overlap() {
  constexpr double kMostError = 0.1;
  auto& result = s_.result;
  const auto in = median_of(result, "in"), kernel = median_of(result, "kernel"), out = median_of(result, "out");
  const auto overlapped = median_of(result, "overlapped"), sync = median_of(result, "sync_cost");
  if (!kernel || !overlapped || !sync || (passes_.has_in() && !in) || (passes_.has_out() && !out)) return;
  const double longest = std::max({in.value_or(0), *kernel, out.value_or(0)});
  const double sum = in.value_or(0) + *kernel + out.value_or(0);
  if (!(sum > longest)) return;  // only one phase: nothing could overlap
  double error = 0;
  for (const char* name : {"in", "kernel", "out", "overlapped"}) {
    if (const auto* series = result.find(name))
      error = std::hypot(error, error_of_median(series->valid(), series->coarse, series->tick));
  }
  if (!(error <= kMostError * (sum - longest))) {
    result.notes["overlap"] = std::isfinite(error) ? fmt::format(
                                                         "withheld: {:.3g} s could be hidden behind the longest phase, "
                                                         "but the phases' times are only known to within {:.3g} s",
                                                         sum - longest, error)
                                                   : "withheld: one sample gives no error estimate";
    return;
  }
  auto& overlap = result.add("overlap", "none", "1");
  overlap.better = Better::higher;
  overlap.samples = {(sum - *sync - *overlapped) / (sum - longest)};
  overlap.stop = Stop::derived;
}

}  // namespace isthmus::harness
