// interjob/<jobs>: batches of GPU jobs, serial and overlapped. Each sample runs all modes, so that the times to be
// compared are measured under the same conditions.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "interjob/costs.hpp"
#include "microbench/axes.hpp"
#include "microbench/interjob/batch.hpp"
#include "microbench/keeping_pool.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench::interjob {
namespace {

using namespace workload;
using pipeline::Mode;
using pipeline::Source;

constexpr std::string_view kKernels[] = {"gemv", "saxpy", "conv2d", "gemm"};
constexpr Source kAllocations[] = {Kind::device, Kind::pool, Kind::vmm, pipeline::kChunked, Kind::managed};
constexpr std::size_t kTimelineJobs = 16;

Source source_of(std::string_view choice) {
  return choice == pipeline::name(pipeline::kChunked) ? pipeline::kChunked : memory::kind_named(choice);
}

Host host_of(std::string_view choice) {
  return choice == "pinned" ? Host::pinned : choice == "per-job" ? Host::per_job : Host::pageable;
}

std::vector<Mode> modes_of(std::string_view choice) {
  if (choice != "all")
    return {*std::ranges::find_if(pipeline::kModes, [&](Mode each) { return name(each) == choice; })};
  return {Mode::overlap_alloc, Mode::overlap_all, Mode::recycled};
}

/// Returns the spans of the first jobs, for a plot: one list per job with begin and end of allocate, in, kernel, out,
/// finish and release, in microseconds since the batch began.
std::string timeline(const pipeline::Result& result) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(result.jobs.size(), kTimelineJobs); ++i) {
    const auto& job = result.jobs[i];
    text += i == 0 ? "[" : ",[";
    bool first = true;
    for (const auto& span : {job.allocate, job.in, job.kernel, job.out, job.finish, job.release}) {
      text += fmt::format("{}{:.0f},{:.0f}", first ? "" : ",", 1e6 * span.begin, 1e6 * span.end);
      first = false;
    }
    text += "]";
  }
  return text + "]";
}

Metric ratio(std::string metric) {
  return share_metric(std::move(metric), "none", "a ratio of times has no known bound");
}
Metric seconds(std::string metric, const char* timer = "clock") {
  return time_metric(std::move(metric), timer, "the shortest possible time of a batch is a separate metric");
}

constexpr std::pair<const char*, double pipeline::Costs::*> kPhases[] = {{"allocate", &pipeline::Costs::allocate},
                                                                         {"submit", &pipeline::Costs::submit},
                                                                         {"in", &pipeline::Costs::in},
                                                                         {"kernel", &pipeline::Costs::kernel},
                                                                         {"out", &pipeline::Costs::out},
                                                                         {"finish", &pipeline::Costs::finish},
                                                                         {"release", &pipeline::Costs::release},
                                                                         {"job", &pipeline::Costs::job}};

/// Metrics of jobs that allocate their memory and make their calls, but copy one element each and compute nothing. They
/// show the time spent by host threads and driver while the device has nothing to do: first for each call of a job that
/// runs alone, then for a batch.
constexpr std::pair<const char*, double pipeline::Costs::*> kCalls[] = {{"calls_allocate", &pipeline::Costs::allocate},
                                                                        {"calls_submit", &pipeline::Costs::submit},
                                                                        {"calls_release", &pipeline::Costs::release},
                                                                        {"calls_job", &pipeline::Costs::job}};
constexpr const char* kOverlappedCalls = "calls_time";
/// Metrics of a job that runs alone, in memory that the previous job used.
constexpr std::pair<const char*, double pipeline::Costs::*> kReused[] = {{"reused_in", &pipeline::Costs::in},
                                                                         {"reused_kernel", &pipeline::Costs::kernel},
                                                                         {"reused_out", &pipeline::Costs::out}};
constexpr std::size_t kReusingJobs = 4;

/// Average bytes and operations of a job.
struct Moved {
  double in = 0, out = 0, device = 0, flops = 0;
};
Moved moved_by(const std::vector<Recipe>& recipes) {
  Moved moved;
  const auto share = 1.0 / static_cast<double>(recipes.size());
  for (const auto& recipe : recipes) {
    for (const auto& operand : recipe.operands)
      if (operand.read) moved.in += share * static_cast<double>(operand.bytes);
    moved.out += share * static_cast<double>(recipe.output().bytes);
    moved.device += share * static_cast<double>(recipe.device_bytes());
    moved.flops += share * recipe.flops;
  }
  return moved;
}

JobBatch::Wanted wanted(const Case& c, std::string_view jobs) {
  JobBatch::Wanted w{.recipes = {},
                     .jobs = c.extent("jobs"),
                     .depth = static_cast<int>(c.integer("depth")),
                     .host = host_of(c.choice("host")),
                     .numa_node = c.numa_node(),
                     .seed = c.seed()};
  for (const auto kernel : kKernels)
    if (jobs == kernel || jobs == "mixed") w.recipes.push_back(recipe(kernel, c.extent("n"), c.seed()));
  return w;
}

/// Batches of one case, and the estimated costs that each batch refines.
class Modes {
 public:
  Modes(Case& c, Source source, std::size_t cap, JobBatch::Wanted wanted)
      : c_(c),
        source_(source),
        modes_(modes_of(c.choice("mode"))),
        may_fail_(c.choice("room") == "fail"),
        moved_(moved_by(wanted.recipes)),
        keeping_(source == Kind::pool),
        batch_(std::move(wanted)),
        options_{.mode = Mode::serial,
                 .force = c.integer("force") != 0,
                 .depth = static_cast<int>(c.integer("depth")),
                 .allocating_threads = static_cast<int>(c.integer("threads")),
                 .device_limit = cap,
                 .wait_for_room = !may_fail_,
                 .device = c.device().index,
                 .chunk_bytes = static_cast<std::size_t>(c.integer("chunk"))} {}

  void check() {
    for (const Mode mode : modes_) run(mode, source_, JobBatch::For::checks);
    c_.verify(
        fmt::format("every job of every batch: {} elements, and more in one batch of each mode",
                    JobBatch::kQuickElements),
        [this] { return batch_.worst(); }, 1);
  }

  void sample() {
    c_.sampling().limit(10, 1);
    std::size_t round = 0;
    c_.sampling().sample(metrics(), [&] {
      const auto device_serial = run_all(round++);
      return values(device_serial);
    });
  }

  void report() const {
    c_.report(count_metric("job_bytes", "B"), moved_.device);
    c_.report(count_metric("job_flops"), moved_.flops);
    c_.report(seconds("thread_wake"), pipeline::thread_costs().wake);
    c_.report(seconds("thread_start"), pipeline::thread_costs().start);
    const auto phases = pipeline::costs_of(last_.at(Mode::serial).jobs);
    for (const auto& [mode, result] : last_) {
      const std::string prefix(name(mode));
      c_.note(prefix + "_timeline", timeline(result));
      c_.report(count_metric(prefix + "_peak", "B"), static_cast<double>(result.peak_device_bytes));
      if (mode == Mode::serial) continue;
      c_.note(prefix + "_ran", fmt::format("{}: {}", name(result.mode), result.reason));
      c_.note(prefix + "_busiest", ideal(phases, mode).busiest);
      if (may_fail_) c_.report(count_metric(prefix + "_failed"), static_cast<double>(failed_.at(mode)));
    }
  }

 private:
  bool beside_device() const { return source_ != Kind::device; }
  bool predictable() const { return options_.device_limit == 0; }  // waits for room cannot be predicted

  pipeline::Ideal ideal(const pipeline::Costs& phases, Mode mode) const {
    return pipeline::ideal(phases, mode, c_.extent("jobs"), options_.depth, options_.allocating_threads);
  }

  pipeline::Result run(Mode mode, Source of, JobBatch::For what = JobBatch::For::time) {
    auto with = options_;
    with.mode = mode;
    if (of == source_ && what == JobBatch::For::time) with.costs = &costs_;
    if (what != JobBatch::For::time) with.force = true;  // otherwise some mode might not be checked
    auto result = batch_.run(of, with, what);
    failed_[mode] = 0;
    for (const auto& each : result.jobs) {
      if (!each.failure) continue;
      try {
        std::rethrow_exception(each.failure);
      } catch (const device::Error& error) {
        if (!may_fail_ || error.kind() != device::ErrorKind::out_of_memory) throw;
        ++failed_[mode];
      }
    }
    return result;
  }

  /// Runs every mode once. If the jobs' memory is not device memory, also runs a serial batch in device memory and
  /// returns its seconds.
  std::optional<double> run_all(std::size_t round) {
    std::optional<double> device_serial;
    // The order rotates, because a run after one with another kind of memory finds the device in a different state.
    std::vector<std::pair<Mode, Source>> runs{{Mode::serial, source_}};
    if (beside_device()) runs.emplace_back(Mode::serial, Kind::device);
    for (const Mode mode : modes_) runs.emplace_back(mode, source_);
    std::rotate(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(round % runs.size()), runs.end());
    for (const auto& [mode, of] : runs) {
      auto result = run(mode, of);
      if (of == source_ && failed_[mode] > 0)
        c_.sampling().invalidate("jobs_failed",
                                 fmt::format("{} of {} jobs found no memory, so the batch did less than requested",
                                             failed_[mode], result.jobs.size()));
      if (of != source_) {
        device_serial = result.seconds;
      } else {
        last_[mode] = std::move(result);
      }
    }
    return device_serial;
  }

  /// Returns the metrics in the order of values().
  std::vector<Metric> metrics() const {
    std::vector<Metric> list{seconds("serial_time")};
    for (const auto& [phase, cost] : kPhases) {
      auto& metric = list.emplace_back(seconds(fmt::format("serial_{}", phase)));
      if (cost == &pipeline::Costs::in) metric.bytes_moved = moved_.in;
      if (cost == &pipeline::Costs::out) metric.bytes_moved = moved_.out;
    }
    if (beside_device()) {
      list.push_back(seconds("device_serial_time"));
      list.push_back(ratio("serial_over_device"));
    }
    for (const Mode mode : modes_) {
      const auto prefix = name(mode);
      list.push_back(seconds(fmt::format("{}_time", prefix)));
      list.push_back(ratio(fmt::format("{}_speedup", prefix)));
      if (beside_device()) list.push_back(ratio(fmt::format("{}_over_device", prefix)));
      list.push_back(seconds(fmt::format("{}_ideal", prefix), "none"));
      list.push_back(ratio(fmt::format("{}_of_ideal", prefix)));
    }
    if (predictable()) {
      for (const auto& [metric, cost] : kCalls) list.push_back(seconds(metric));
      list.push_back(seconds(kOverlappedCalls));
      for (const auto& [metric, cost] : kReused) list.push_back(seconds(metric));
    }
    return list;
  }

  std::vector<double> values(std::optional<double> device_serial) {
    const auto& serial = last_.at(Mode::serial);
    const auto phases = pipeline::costs_of(serial.jobs);
    std::vector<double> list{serial.seconds};
    for (const auto& [phase, cost] : kPhases) list.push_back(phases.*cost);
    if (device_serial) {
      list.push_back(*device_serial);
      list.push_back(*device_serial / serial.seconds);
    }
    for (const Mode mode : modes_) {
      const double took = last_.at(mode).seconds, best = ideal(phases, mode).seconds;
      list.push_back(took);
      list.push_back(serial.seconds / took);
      if (device_serial) list.push_back(*device_serial / took);
      list.push_back(best);
      list.push_back(best / took);
    }
    if (predictable()) {
      const auto calls = pipeline::costs_of(run(Mode::serial, source_, JobBatch::For::calls).jobs);
      for (const auto& [metric, cost] : kCalls) list.push_back(calls.*cost);
      list.push_back(run(Mode::overlap_all, source_, JobBatch::For::calls).seconds);
      auto alone = options_;
      alone.mode = Mode::recycled;
      alone.force = true;
      alone.depth = 1;
      const auto reusing = batch_.run(source_, alone, JobBatch::For::time, kReusingJobs);
      const auto reused = pipeline::costs_of(std::span(reusing.jobs).subspan(1));
      for (const auto& [metric, cost] : kReused) list.push_back(reused.*cost);
    }
    return list;
  }

  Case& c_;
  Source source_;
  std::vector<Mode> modes_;
  bool may_fail_;
  Moved moved_;
  KeepingPool keeping_;
  JobBatch batch_;
  pipeline::Options options_;
  pipeline::Costs costs_;  // estimates that the library refines from batch to batch
  std::map<Mode, pipeline::Result> last_;
  std::map<Mode, std::size_t> failed_;
};

void run(Case& c, std::string_view jobs) {
  const auto source = source_of(c.choice("allocation"));
  require_kind(source.value_or(Kind::vmm), Reader::gpu, c.device());  // chunks are mapped like memory of kind vmm
  auto batch = wanted(c, jobs);
  const std::size_t one_job = JobBatch::device_bytes(batch);
  const std::size_t cap = one_job * static_cast<std::size_t>(c.integer("cap")) / 100;
  const std::size_t most = one_job * static_cast<std::size_t>(batch.depth);
  c.needs(JobBatch::host_bytes(batch), cap == 0 ? most : std::min(cap, most));
  Modes modes(c, source, cap, std::move(batch));
  modes.check();
  modes.sample();
  modes.report();
}

/// Returns the metrics that every case has.
std::vector<std::string> metric_names() {
  std::vector<std::string> names{"serial_time", "serial_peak", "job_bytes", "job_flops", "thread_wake", "thread_start"};
  for (const auto& [phase, cost] : kPhases) names.push_back(fmt::format("serial_{}", phase));
  return names;
}

/// Returns the metrics that depend on the modes and the memory.
std::vector<std::string> other_names() {
  std::vector<std::string> names{"device_serial_time", "serial_over_device", kOverlappedCalls};
  for (const auto& [metric, cost] : kCalls) names.emplace_back(metric);
  for (const auto& [metric, cost] : kReused) names.emplace_back(metric);
  for (const Mode mode : modes_of("all")) {
    for (const char* what : {"time", "speedup", "over_device", "ideal", "of_ideal", "peak", "failed"})
      names.push_back(fmt::format("{}_{}", name(mode), what));
  }
  return names;
}

Workload workload(std::string_view jobs) {
  std::vector<AxisValue> allocations;
  for (const auto source : kAllocations) allocations.emplace_back(std::string(pipeline::name(source)));
  Workload w(fmt::format("interjob/{}", jobs), [jobs](Case& c) { run(c, jobs); });
  Axis force = number_axis("force", "1: always overlap; 0: only where the library expects a gain", 0, 0);
  force.choices = {0, 1};
  w.version(1)
      .summary(fmt::format("a batch of {} jobs, serial and overlapped", jobs))
      .source("pipelining-taco2025, section 8.3 and Figures 15 and 16")
      .tags({"interjob"})
      .stagings({})
      .metrics(metric_names())
      .reported(other_names())
      .axis(number_axis("n", "a job works on n x n elements", 1024).with_size_sweep(powers(256, 32 * kKi)))
      .axis(number_axis("jobs", "jobs of a batch", 16, 2).with_all_values({16, 64}))
      .axis(choice_axis("allocation", "how a job allocates device memory", std::move(allocations))
                .with_default_sweep({"device", "pool", "vmm", "chunked"}))
      .axis(choice_axis("mode", "what overlaps; all: every mode, in every sample",
                        {"all", "overlap_alloc", "overlap_all", "recycled"}))
      .axis(choice_axis("host", "host memory: page-locked once, page-locked for each job, or pageable",
                        {"pinned", "per-job", "pageable"}))
      .axis(number_axis("depth", "jobs that may have memory at once", 3).with_all_values({2, 3, 4}))
      .axis(number_axis("threads", "allocating threads", 1))
      .axis(std::move(force))
      .axis(number_axis("cap", "device memory that jobs may use at once, in percent of one job's; 0: no limit", 0, 0))
      .axis(choice_axis("room", "a job that finds no memory waits for it, or fails", {"wait", "fail"}))
      .axis(bytes_axis(
          "chunk", "bytes of a chunk; 0: a quarter of the largest operand (a sixteenth under a limit), at most 64 MiB",
          0, 0))
      .estimate([jobs](const CaseSpec& spec) {
        // Every mode runs the batch once. A job copies its operands; by far the longest work is a product of matrices.
        const auto n = static_cast<double>(spec.integer("n"));
        const double products = jobs == "gemm" ? 1 : jobs == "mixed" ? 0.25 : 0;
        const bool emulated = device::backend() == device::Backend::emulator;
        const double element = emulated ? 40e-9 : 0.2e-9, operation = emulated ? 1 / 7e9 : 1 / 30e12;
        return 5.0 * static_cast<double>(spec.integer("jobs")) *
               (2e-4 + n * n * element + products * 2 * n * n * n * operation);
      });
  w.sizes({"n"}, {512, 1024, 4096, 8192, 16384, 32768});
  return w;
}

std::vector<Registration> register_all() {
  std::vector<Registration> list;
  for (const auto kernel : kKernels) list.emplace_back(workload(kernel));
  list.emplace_back(workload("mixed"));
  return list;
}

const std::vector<Registration> registrations = register_all();

}  // namespace
}  // namespace isthmus::microbench::interjob
