// interjob/<jobs>: batches of GPU jobs one after the other and overlapped, all modes in each sample, so that what they
// are compared by was measured beside them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "interjob/costs.hpp"
#include "microbench/axes.hpp"
#include "microbench/interjob/batch.hpp"
#include "microbench/keeping_pool.hpp"

namespace isthmus::microbench::interjob {
namespace {

using namespace harness;
using pipeline::Kind;
using pipeline::Mode;

constexpr std::string_view kKernels[] = {"gemv", "saxpy", "conv2d", "gemm"};
constexpr Kind kAllocations[] = {Kind::device, Kind::pool, Kind::vmm, Kind::chunked, Kind::managed};
constexpr std::size_t kTimelineJobs = 16;

template <class Value>
Value named(const auto& all, std::string_view wanted) {
  return *std::ranges::find_if(all, [&](Value each) { return name(each) == wanted; });
}

Host host_of(std::string_view choice) {
  return choice == "pinned" ? Host::pinned : choice == "per-job" ? Host::per_job : Host::pageable;
}

std::vector<Mode> modes_of(std::string_view choice) {
  if (choice != "all") return {named<Mode>(pipeline::kModes, choice)};
  return {Mode::overlap_alloc, Mode::overlap_all, Mode::recycled};
}

void need_kind(const device::DeviceInfo& info, Kind kind) {
  const bool there = kind == Kind::pool                           ? info.memory_pools
                     : kind == Kind::managed                      ? info.managed
                     : kind == Kind::vmm || kind == Kind::chunked ? info.virtual_memory
                                                                  : true;
  if (!there) throw Skip(fmt::format("this device has no {} memory", name(kind)));
}

/// Jobs' spans for a picture: microseconds since the batch began, begin and end of allocate, in, kernel, out, finish
/// and release, a list for each of the first jobs.
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
  return {.name = std::move(metric),
          .unit = "1",
          .better = Better::higher,
          .timer = "none",
          .limit_reason = "a ratio of times has no known bound"};
}
Metric seconds(std::string metric) {
  return {.name = std::move(metric),
          .unit = "s",
          .timer = "clock",
          .limit_reason =
              "what a batch can take at least is "
              "a metric of its own"};
}

constexpr std::pair<const char*, double pipeline::Costs::*> kPhases[] = {{"allocate", &pipeline::Costs::allocate},
                                                                         {"submit", &pipeline::Costs::submit},
                                                                         {"in", &pipeline::Costs::in},
                                                                         {"kernel", &pipeline::Costs::kernel},
                                                                         {"out", &pipeline::Costs::out},
                                                                         {"finish", &pipeline::Costs::finish},
                                                                         {"release", &pipeline::Costs::release},
                                                                         {"job", &pipeline::Costs::job}};

/// Of jobs that take their memory and make their calls, but copy an element each and compute nothing: what the host's
/// threads and the driver take where the device has nothing to do. First each call of a job alone, then a batch.
constexpr std::pair<const char*, double pipeline::Costs::*> kCalls[] = {{"calls_allocate", &pipeline::Costs::allocate},
                                                                        {"calls_submit", &pipeline::Costs::submit},
                                                                        {"calls_release", &pipeline::Costs::release},
                                                                        {"calls_job", &pipeline::Costs::job}};
constexpr const char* kOverlappedCalls = "calls_time";
/// Of a job alone in memory that the job before it used.
constexpr std::pair<const char*, double pipeline::Costs::*> kReused[] = {{"reused_in", &pipeline::Costs::in},
                                                                         {"reused_kernel", &pipeline::Costs::kernel},
                                                                         {"reused_out", &pipeline::Costs::out}};
constexpr std::size_t kReusingJobs = 4;

/// Bytes and operations of a job, on average.
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

void run(Case& c, std::string_view jobs) {
  const auto kind = named<Kind>(kAllocations, c.choice("allocation"));
  need_kind(c.device(), kind);
  const auto modes = modes_of(c.choice("mode"));
  const bool may_fail = c.choice("room") == "fail", beside_device = kind != Kind::device;
  auto batch_wanted = wanted(c, jobs);
  const std::size_t one_job = JobBatch::device_bytes(batch_wanted);
  const std::size_t cap = one_job * static_cast<std::size_t>(c.integer("cap")) / 100;
  const std::size_t most = one_job * static_cast<std::size_t>(batch_wanted.depth);
  c.needs(JobBatch::host_bytes(batch_wanted), cap == 0 ? most : std::min(cap, most));

  const Moved moved = moved_by(batch_wanted.recipes);
  const KeepingPool keeping(kind == Kind::pool);
  JobBatch batch(std::move(batch_wanted));
  pipeline::Options options{.mode = Mode::serial,
                            .force = c.integer("force") != 0,
                            .depth = static_cast<int>(c.integer("depth")),
                            .allocating_threads = static_cast<int>(c.integer("threads")),
                            .device_limit = cap,
                            .wait_for_room = !may_fail,
                            .device = c.device().index,
                            .chunk_bytes = static_cast<std::size_t>(c.integer("chunk"))};
  pipeline::Costs costs;  // what the library learns of these jobs, from batch to batch
  std::map<Mode, pipeline::Result> last;
  std::map<Mode, std::size_t> failed;
  using For = JobBatch::For;
  const auto one = [&](Mode mode, Kind of, For what = For::time) {
    auto with = options;
    with.mode = mode;
    if (of == kind && what == For::time) with.costs = &costs;
    if (what != For::time) with.force = true;  // or some mode might not be looked at
    auto result = batch.run(of, with, what);
    failed[mode] = 0;
    for (const auto& each : result.jobs) {
      if (!each.failure) continue;
      try {
        std::rethrow_exception(each.failure);
      } catch (const device::Error& error) {
        if (!may_fail || error.kind() != device::ErrorKind::out_of_memory) throw;
        ++failed[mode];
      }
    }
    return result;
  };
  for (const Mode mode : modes) one(mode, kind, For::checks);
  c.verify(
      fmt::format("every job of every batch: {} elements and, of one batch of each mode, more",
                  JobBatch::kQuickElements),
      [&] { return batch.worst(); }, 1);

  std::vector<Metric> metrics{seconds("serial_time")};
  for (const auto& [phase, cost] : kPhases) {
    auto& metric = metrics.emplace_back(seconds(fmt::format("serial_{}", phase)));
    if (cost == &pipeline::Costs::in) metric.bytes_moved = moved.in;
    if (cost == &pipeline::Costs::out) metric.bytes_moved = moved.out;
  }
  if (beside_device) {
    metrics.push_back(seconds("device_serial_time"));
    metrics.push_back(ratio("serial_over_device"));
  }
  for (const Mode mode : modes) {
    const auto prefix = name(mode);
    metrics.push_back(seconds(fmt::format("{}_time", prefix)));
    metrics.push_back(ratio(fmt::format("{}_speedup", prefix)));
    if (beside_device) metrics.push_back(ratio(fmt::format("{}_over_device", prefix)));
    auto best = seconds(fmt::format("{}_ideal", prefix));
    best.timer = "none";
    metrics.push_back(std::move(best));
    metrics.push_back(ratio(fmt::format("{}_of_ideal", prefix)));
  }
  const bool predictable = cap == 0;  // jobs that wait for room are not foreseen
  if (predictable) {
    for (const auto& [metric, cost] : kCalls) metrics.push_back(seconds(metric));
    metrics.push_back(seconds(kOverlappedCalls));
    for (const auto& [metric, cost] : kReused) metrics.push_back(seconds(metric));
  }
  c.sparing(10, 1);
  std::size_t round = 0;
  c.sample(metrics, [&] {
    std::optional<double> device_serial;
    // Whoever comes first after another kind of memory finds the device in another state: take turns.
    std::vector<std::pair<Mode, Kind>> runs{{Mode::serial, kind}};
    if (beside_device) runs.emplace_back(Mode::serial, Kind::device);
    for (const Mode mode : modes) runs.emplace_back(mode, kind);
    std::ranges::rotate(runs, runs.begin() + static_cast<std::ptrdiff_t>(round++ % runs.size()));
    for (const auto& [mode, of] : runs) {
      auto result = one(mode, of);
      if (of == kind && failed[mode] > 0)
        c.spoil("jobs_failed", fmt::format("{} of {} jobs found no memory, so the batch did less than was asked",
                                           failed[mode], result.jobs.size()));
      if (of != kind) {
        device_serial = result.seconds;
      } else {
        last[mode] = std::move(result);
      }
    }
    const auto& serial = last.at(Mode::serial);
    const auto phases = pipeline::costs_of(serial.jobs);
    std::vector<double> values{serial.seconds};
    for (const auto& [phase, cost] : kPhases) values.push_back(phases.*cost);
    if (device_serial) {
      values.push_back(*device_serial);
      values.push_back(*device_serial / serial.seconds);
    }
    for (const Mode mode : modes) {
      const double took = last.at(mode).seconds;
      const double best =
          pipeline::ideal(phases, mode, c.extent("jobs"), options.depth, options.allocating_threads).seconds;
      values.push_back(took);
      values.push_back(serial.seconds / took);
      if (device_serial) values.push_back(*device_serial / took);
      values.push_back(best);
      values.push_back(best / took);
    }
    if (predictable) {
      const auto calls = pipeline::costs_of(one(Mode::serial, kind, For::calls).jobs);
      for (const auto& [metric, cost] : kCalls) values.push_back(calls.*cost);
      values.push_back(one(Mode::overlap_all, kind, For::calls).seconds);
      auto alone = options;
      alone.mode = Mode::recycled;
      alone.force = true;
      alone.depth = 1;
      const auto reusing = batch.run(kind, alone, For::time, kReusingJobs);
      const auto reused = pipeline::costs_of(std::span(reusing.jobs).subspan(1));
      for (const auto& [metric, cost] : kReused) values.push_back(reused.*cost);
    }
    return values;
  });

  c.observe({.name = "job_bytes", .unit = "B", .timer = "none"}, moved.device);
  c.observe({.name = "job_flops", .unit = "1", .timer = "none"}, moved.flops);
  c.observe(seconds("thread_wake"), pipeline::thread_costs().wake);
  c.observe(seconds("thread_start"), pipeline::thread_costs().start);
  const auto phases = pipeline::costs_of(last.at(Mode::serial).jobs);
  for (const auto& [mode, result] : last) {
    const std::string prefix(name(mode));
    c.note(prefix + "_timeline", timeline(result));
    c.observe({.name = prefix + "_peak", .unit = "B", .timer = "none"}, static_cast<double>(result.peak_device_bytes));
    if (mode == Mode::serial) continue;
    c.note(prefix + "_ran", fmt::format("{}: {}", name(result.mode), result.reason));
    c.note(prefix + "_busiest",
           pipeline::ideal(phases, mode, c.extent("jobs"), options.depth, options.allocating_threads).busiest);
    if (may_fail)
      c.observe({.name = prefix + "_failed", .unit = "1", .timer = "none"}, static_cast<double>(failed[mode]));
  }
}

/// What every case has.
std::vector<std::string> metric_names() {
  std::vector<std::string> names{"serial_time", "serial_peak", "job_bytes", "job_flops", "thread_wake", "thread_start"};
  for (const auto& [phase, cost] : kPhases) names.push_back(fmt::format("serial_{}", phase));
  return names;
}

/// What depends on the modes and the memory.
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
  for (const Kind kind : kAllocations) allocations.emplace_back(std::string(name(kind)));
  Workload w(fmt::format("interjob/{}", jobs), [jobs](Case& c) { run(c, jobs); });
  auto allocation = choice_axis("allocation", "device memory of a job", std::move(allocations));
  allocation.usual = {std::string("device"), std::string("pool"), std::string("vmm"), std::string("chunked")};
  auto size = number_axis("n", "jobs work on n x n elements", 1024);
  size.sweep = powers(256, 32 * kKi);
  auto batch = number_axis("jobs", "jobs of a batch", 16, 2);
  batch.listed = {std::int64_t{16}, std::int64_t{64}};
  auto depth = number_axis("depth", "jobs that hold memory at once, at most", 3);
  depth.listed = {std::int64_t{2}, std::int64_t{3}, std::int64_t{4}};
  Axis force = number_axis("force", "1: overlap whatever it costs; 0: where the library expects a gain", 0, 0);
  force.allowed = {std::int64_t{0}, std::int64_t{1}};
  w.version(1)
      .summary(fmt::format("a batch of {} jobs, one after the other and overlapped", jobs))
      .source("pipelining-taco2025, section 8.3 and Figures 15 and 16")
      .tags({"interjob"})
      .stagings({})
      .metrics(metric_names())
      .observed(other_names())
      .axis(std::move(size))
      .axis(std::move(batch))
      .axis(std::move(allocation))
      .axis(choice_axis("mode", "what overlaps; all: each mode, in every sample",
                        {"all", "overlap_alloc", "overlap_all", "recycled"}))
      .axis(choice_axis("host", "host memory: page-locked once, page-locked for each job, or pageable",
                        {"pinned", "per-job", "pageable"}))
      .axis(std::move(depth))
      .axis(number_axis("threads", "threads that allocate", 1))
      .axis(std::move(force))
      .axis(number_axis("cap", "device memory that jobs may hold at once, in percent of one job's; 0: no limit", 0, 0))
      .axis(choice_axis("room", "a job that finds no room waits for it, or fails", {"wait", "fail"}))
      .axis(bytes_axis("chunk",
                       "bytes of a chunk; 0: a quarter of the largest operand, under a cap a sixteenth, 64 MiB at most",
                       0, 0))
      .estimate([](const CaseSpec& spec) {
        const auto n = static_cast<double>(spec.integer("n"));
        return 5.0 * static_cast<double>(spec.integer("jobs")) * (2e-4 + n * n * 4 / 20e9 + 2 * n * n * n / 30e12);
      });
  constexpr std::pair<const char*, std::int64_t> sizes[] = {{"tiny", 512},   {"small", 1024},  {"medium", 4096},
                                                            {"large", 8192}, {"super", 16384}, {"mega", 32768}};
  for (const auto& [label, n] : sizes) w.size(label, {{"n", n}});
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
