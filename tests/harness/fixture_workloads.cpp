// Workloads for the tests. Each is small enough for the emulator and exercises one thing that the harness must do
// correctly or detect.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/kernel/kernel.hpp"
#include "workload/fresh_process.hpp"
#include "workload/workload.hpp"

namespace isthmus {
namespace {

using namespace workload;

// y[i] = a * x[i] + y[i]
__global__ void fixture_saxpy(std::size_t first, std::size_t count, float a, const float* x, float* y) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    y[first + i] = a * x[first + i] + y[first + i];
}

// out[i] = in[i-1] + in[i] + in[i+1], where elements outside of `in` are 0
__global__ void fixture_stencil(std::size_t first, std::size_t count, std::size_t n, const float* in, float* out) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t k = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const std::size_t i = first + k;
    const float left = i > 0 ? in[i - 1] : 0.0f, right = i + 1 < n ? in[i + 1] : 0.0f;
    out[i] = left + in[i] + right;
  }
}

void saxpy(Case& c) {
  const auto n = c.extent("n");
  const auto threads = static_cast<unsigned>(c.extent("threads"));
  const auto ux = uniform(c.seed(), 0, -1, 1), uy = uniform(c.seed(), 1, -1, 1);
  c.note("origin", "a fixture");
  const bool wrong = c.choice("fault") == "wrong", missing = c.choice("fault") == "missing";
  auto x = c.input<float>("x", n, ux, {sizeof(float), 0});
  auto y = c.inout<float>("y", n, uy, {sizeof(float), 0});
  c.chunks(n);
  const double bytes = 4.0 * static_cast<double>(n);
  const Traffic traffic{.bytes_read = 2 * bytes, .bytes_written = bytes, .flops = 2.0 * static_cast<double>(n)};
  const device::LaunchShape shape{.grid = 4, .block = threads};
  if (c.choice("fault") != "unverified")
    c.verify(y, [=](std::size_t i) { return 2.0f * ux(i) + uy(i); }, {.absolute = 1e-6, .relative = 1e-6});
  if (c.choice("fault") == "early") x.device();
  c.measure(Control::queued, [=](Run& run) {
    if (missing) return;
    const auto [first, all] = run.chunk();
    const std::size_t count = wrong ? all - 1 : all;
    run.launch(ISTHMUS_KERNEL(fixture_saxpy), shape, traffic, first, count, 2.0f, x.device(), y.device());
  });
}

const Registration saxpy_registration =
    Workload("fixture/saxpy", saxpy)
        .version(3)
        .summary("y = a x + y")
        .source("this test")
        .tags({"smoke"})
        .placements(memory::all_placements())
        .stagings({Staging::none, Staging::direct})
        .axis({"n", "elements", std::int64_t{1} << 16, {}, 1})
        .axis({"threads", "threads of a block", 64, {32, 64, 128}})
        .axis({"fault", "what is wrong with the kernel", "none", {"none", "wrong", "missing", "unverified", "early"}})
        .size("tiny", {{"n", 4096}})
        .size("small", {{"n", 65536}})
        .size("mega", {{"n", std::int64_t{1} << 40}})
        .preset({"fixture-fig1", "a sweep", {{"n", 2048}}, {"tiny"}, "threads", {32, 128}, {"baseline", "pm"}});

void stencil(Case& c) {
  const auto n = c.extent("n");
  const auto u = uniform(c.seed(), 0, 0, 1);
  auto in = c.input<float>("in", n, u, {sizeof(float), 1});
  auto out = c.output<float>("out", n, {sizeof(float), 0});
  c.chunks(n);
  c.measure(Control::queued, [=](Run& run) {
    const double bytes = 4.0 * static_cast<double>(run.chunk().count);
    run.launch(ISTHMUS_KERNEL(fixture_stencil), {.grid = 2, .block = 64}, {.bytes_read = bytes, .bytes_written = bytes},
               run.chunk().first, run.chunk().count, n, in.device(), out.device());
  });
  c.verify(out, [=](std::size_t i) { return (i > 0 ? u(i - 1) : 0.0f) + u(i) + (i + 1 < n ? u(i + 1) : 0.0f); },
           {.relative = 1e-6});
}

const Registration stencil_registration = Workload("fixture/stencil", stencil)
                                              .summary("three-point sum, checked after measuring")
                                              .placements(memory::all_placements())
                                              .stagings({Staging::direct})
                                              .axis({"n", "elements", 1000, {}, 1})
                                              .size("tiny", {{"n", 1000}});

// --- bodies of every kind ----------------------------------------------------------------------------

// out[i] = in[i] + 1
__global__ void fixture_add_one(std::size_t n, const std::uint32_t* in, std::uint32_t* out) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}

/// Adds one to each number of a file, or to 0, 1, 2, …
void numbers(Case& c) {
  std::size_t n = 8;
  std::function<std::vector<std::uint32_t>()> make = [n] {
    std::vector<std::uint32_t> list(n);
    for (std::size_t i = 0; i < n; ++i) list[i] = static_cast<std::uint32_t>(i);
    return list;
  };
  if (c.choice("source") == "file") {
    const auto& file = c.input_file();
    n = file.bytes() / sizeof(std::uint32_t);
    make = [file, n] {
      std::vector<std::uint32_t> list(n);
      file.read(0, list.data(), n * sizeof list[0]);
      return list;
    };
  }
  const auto list = c.shared<std::vector<std::uint32_t>>("list", n * sizeof(std::uint32_t), make);
  auto in = c.input<std::uint32_t>("in", n, [list](std::size_t i) { return (*list)[i]; });
  auto out = c.output<std::uint32_t>("out", n);
  c.verify(out, [list](std::size_t i) { return (*list)[i] + 1; }, {});
  c.verify_same(out);
  c.measure(Control::queued, [=](Run& run) {
    run.launch(ISTHMUS_KERNEL(fixture_add_one), {.grid = 1, .block = 256}, {}, n, in.device(), out.device());
  });
}

const Registration numbers_registration =
    Workload("fixture/numbers", numbers)
        .summary("one more than each number of a file")
        .placements(memory::all_placements())
        .stagings({Staging::direct})
        .axis(choice_axis("source", "where the numbers are from", {"made", "file"}))
        .with_file("source", "ISTHMUS_FIXTURE_NUMBERS", "a file of 32-bit numbers", 1024);

// Sets `unfinished` to 1 if any value is below `wanted`.
__global__ void fixture_look(std::size_t n, const std::uint32_t* values, std::uint32_t wanted,
                             std::uint32_t* unfinished) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n && values[i] < wanted) *unfinished = 1;
}

// out[i] = value
__global__ void fixture_set(std::size_t n, std::uint32_t value, std::uint32_t* out) {
  for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) out[i] = value;
}

// out[i] = value
__global__ void fixture_set_wide(std::size_t n, std::int64_t value, std::int64_t* out) {
  for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) out[i] = value;
}

struct Table {
  std::vector<std::uint32_t> values;
};

/// Does `steps` additions, alternating between two buffers. The axis `body` selects how the workload's body loops.
void steps(Case& c) {
  const auto n = c.extent("n"), count = c.extent("steps");
  const auto body = c.choice("body"), fault = c.choice("fault");
  const auto seed = static_cast<std::uint32_t>(c.seed());
  const auto table = c.shared<Table>("start values", n * sizeof(std::uint32_t), [=] {
    Table made;
    for (std::size_t i = 0; i < n; ++i) made.values.push_back(seed + static_cast<std::uint32_t>(i));
    return made;
  });
  if (fault == "peek") static_cast<void>(table->values.front());
  auto values = c.inout<std::uint32_t>("values", n, [table](std::span<std::uint32_t> all) {
    std::copy(table->values.begin(), table->values.end(), all.begin());
  });
  auto other = c.scratch<std::uint32_t>("other", n);
  auto unfinished = c.scratch<std::uint32_t>("unfinished", 1);
  const device::LaunchShape shape{.grid = static_cast<unsigned>((n + 63) / 64), .block = 64};
  const Traffic traffic{.bytes_read = 4.0 * static_cast<double>(n), .bytes_written = 4.0 * static_cast<double>(n)};
  c.verify_all(values, [=](std::span<std::uint32_t> expected) {
    for (std::size_t i = 0; i < n; ++i)
      expected[i] = table->values[i] + static_cast<std::uint32_t>(count) + (fault == "reference" ? 1u : 0u);
  });
  c.verify_same(values);
  const auto step = [=](Run& run, std::size_t number) {
    const bool even = number % 2 == 0;
    run.launch(ISTHMUS_KERNEL(fixture_add_one), shape, traffic, n, even ? values.device() : other.device(),
               even ? other.device() : values.device());
  };
  const auto finish = [=](Run& run) {
    if (count % 2 == 0) return;
    run.call("copy back", traffic, [&](device::Stream& stream) {
      device::copy_async(values.device(), other.device(), n * sizeof(std::uint32_t), stream);
    });
  };
  if (body == "waits" || fault == "read") {
    c.measure(fault == "read" ? Control::queued : Control::waits, [=](Run& run) {
      for (std::size_t k = 0;; ++k) {
        step(run, k);
        run.fill(unfinished, 0);
        run.launch(ISTHMUS_KERNEL(fixture_look), shape, {.bytes_read = traffic.bytes_read}, n,
                   k % 2 == 0 ? other.device() : values.device(), seed + static_cast<std::uint32_t>(count),
                   unfinished.device());
        if (run.read(unfinished) == 0) break;
      }
      finish(run);
    });
  } else if (body == "repeats") {
    c.repeats(count);
    c.measure(Control::queued, [=](Run& run) {
      step(run, run.repeat());
      if (run.repeat() + 1 == count) finish(run);
    });
  } else {
    c.measure(Control::queued, [=](Run& run) {
      for (std::size_t k = 0; k < count; ++k) {
        if (fault == "travel" && k == count / 2) run.to_host(values), run.to_device(values);
        step(run, k);
      }
      if (fault == "waits") run.call("wait", {}, [](device::Stream& stream) { stream.synchronize(); });
      finish(run);
    });
  }
}

const Registration steps_registration =
    Workload("fixture/steps", steps)
        .summary("a program that loops")
        .placements(memory::all_placements())
        .stagings({Staging::none})
        .axis(number_axis("n", "elements", 100))
        .axis(number_axis("steps", "additions", 5))
        .axis(how(choice_axis("body", "how the body loops", {"queued", "waits", "repeats"})))
        .axis(submission_axis())
        .axis(how(choice_axis("fault", "what is wrong", {"none", "reference", "read", "peek", "travel", "waits"})));

// Writes results that differ between placements, although every result passes the check.
void unequal(Case& c) {
  const auto n = c.extent("n");
  auto out = c.output<std::uint32_t>("out", n);
  const std::uint32_t value = c.placement() == memory::parse_placement("pinned") ? 1 : 2;
  c.verify(out, [=](std::size_t) { return 1.5; }, {.absolute = 0.5});
  c.verify_same(out);
  c.measure(Control::queued, [=](Run& run) {
    run.call("set", {}, [&](device::Stream& stream) {
      device::fill_async(out.device(), static_cast<std::uint8_t>(0), n * 4, stream);
    });
    run.launch(ISTHMUS_KERNEL(fixture_set), {.grid = 1, .block = 32}, {}, n, value, out.device());
  });
}
const Registration unequal_registration = Workload("unequal/results", unequal)
                                              .summary("depends on the placement")
                                              .placements(memory::all_placements())
                                              .stagings({Staging::none})
                                              .axis(number_axis("n", "elements", 10));

// Makes one of the mistakes that an author may make with checks and shared inputs. Each must make its case fail without
// affecting other cases.
void misuse(Case& c) {
  const std::size_t n = 64;
  const auto what = c.choice("what");
  const std::int64_t base = std::int64_t{1} << 60;
  auto out = c.output<std::int64_t>("out", n);
  auto scratch = c.scratch<std::int64_t>(what == "buffer_name" ? "out" : "scratch", n);
  const auto source = c.host_source<std::int64_t>("source", n, [](std::size_t) { return 0; });
  const auto verify_all = [&](std::int64_t more) {
    c.verify_all(out,
                 [=](std::span<std::int64_t> expected) { std::fill(expected.begin(), expected.end(), base + more); });
  };
  verify_all(what == "beyond_a_double" ? 1 : 0);
  if (what == "two_references") verify_all(1);
  if (what == "shared_name") {
    c.shared<int>("number", 4, [] { return 1; });
    c.shared<double>("number", 8, [] { return 2.0; });
  }
  if (what == "verify_scratch") c.verify(scratch, [](std::size_t) { return 0; }, {});
  if (what == "same_scratch") c.verify_same(scratch);
  if (what == "measures_twice") c.report(time_metric("kernel", "event"), 1);
  for (int i = 0; what == "metric_twice" && i < 2; ++i) c.report(count_metric("pages"), i);
  const bool waits = what == "read_far" || what == "waits_and_awaits";
  c.measure(waits ? Control::waits : Control::queued, [=](Run& run) {
    if (what == "waits_and_awaits") run.await(0);
    if (what == "source_on_device") static_cast<void>(source.device());
    if (what == "source_travels") run.to_device(source);
    if (what == "brings_into_an_output") run.copy_in<std::int64_t>(0, {source, 0, n, out, 0});
    if (what == "host") static_cast<void>(*out.host());
    if (what == "no_exception") throw 42;
    if (what == "read_far") run.read(out, std::size_t{1} << 61);
    run.launch(ISTHMUS_KERNEL(fixture_set_wide), {.grid = 1, .block = 32}, {}, n, base, out.device());
  });
  if (what == "late_repeats") c.repeats(2);
}
const Registration misuse_registration =
    Workload("misuse/checks", misuse)
        .summary("what an author may get wrong")
        .placements(memory::all_placements())
        .stagings({Staging::none})
        .axis(choice_axis(
            "what", "what is wrong",
            {"none", "beyond_a_double", "two_references", "shared_name", "buffer_name", "verify_scratch",
             "same_scratch", "host", "no_exception", "read_far", "late_repeats", "metric_twice", "measures_twice",
             "waits_and_awaits", "source_on_device", "source_travels", "brings_into_an_output"}));

void host_loop(Case& c) {
  const double preparing = now();
  while (now() - preparing < 20e-3) {
  }
  double total = 0;
  c.sampling().sample(time_metric("loop", "clock"), [&] {
    const double begin = now();
    while (now() - begin < 200e-6) total += 1;
    return now() - begin;
  });
  c.verify("counts", [&] { return total > 0 ? 0.0 : 1.0; }, 0.5);
}

const Registration host_registration =
    Workload("fixture/host_loop", host_loop)
        .summary("work of the CPU alone")
        .metrics({"loop"})
        .cpu_only()
        .preset({.name = "fixture-repeated", .help = "twice, for a while", .processes = 2, .least_time = 0.05});

// Does not read its axes and takes no samples.
void unread(Case& c) {
  c.once(time_metric("loop", "clock"), 1);
}
const Registration unread_registration = Workload("unused/axis", unread)
                                             .summary("an axis that means nothing")
                                             .unverified("nothing is computed")
                                             .metrics({"loop"})
                                             .cpu_only()
                                             .axis({.name = "unread", .help = "nothing", .default_value = 1})
                                             .size("tiny", {{"unread", 2}});
const Registration first_gpu_registration = Workload("unused/device", unread)
                                                .summary("of the first GPU")
                                                .unverified("nothing is computed")
                                                .metrics({"loop"})
                                                .devices({0});

void skips(Case&) {
  throw Skip("this workload never runs");
}
const Registration skip_registration = Workload("fixture/skips", skips).summary("skips").unverified("it never runs");

// Samples its metrics directly instead of measuring passes; the axis `what` selects how. The values are made up, so
// that they need no time.
void own_readings(Case& c) {
  const auto what = c.choice("what");
  const auto bytes = c.extent("bytes");
  int taken = 0;
  c.needs(bytes, 0);
  if (what == "unlatched") c.sampling().latch();
  const Metric seconds = time_metric("seconds", "clock");
  const Metric there = rate_metric("there", "B/s", "clock").moving(0, 1e6);
  const Metric back = rate_metric("back", "B/s", "clock", "this test knows none").moving(0, 1e6);
  if (what == "several") {  // the second metric settles only after ten samples
    c.sampling().sample({there, back}, [&] {
      ++taken;
      return std::vector{1e9, taken < 10 ? 1e9 * taken : 1e9};
    });
  } else if (what == "slow_inputs") {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    c.sampling().sample(seconds, [] { return 1.0; });
  } else if (what == "slow_samples") {
    c.sampling().sample(seconds, [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return 0.1;
    });
  } else if (what == "unequal") {
    c.sampling().sample({there, back}, [] { return std::vector{1.0}; });
  } else if (what == "invalid") {
    c.sampling().sample(seconds, [&] {
      if (++taken == 4) c.sampling().invalidate("late", "something came in between");
      return taken == 4 ? 100.0 : 1.0;
    });
  } else if (what == "batched") {
    c.sampling().sample(seconds, [&] {
      c.sampling().batch(64);
      return c.sampling().least_seconds("clock") / 64;
    });
  } else if (what == "unsettled") {
    c.sampling().sample(seconds, [&] { return static_cast<double>(++taken); });
  } else if (what == "coarse") {
    c.sampling().sample({there, seconds}, [&] { return std::vector{1e12, c.sampling().least_seconds("clock")}; });
  } else {
    c.sampling().sample(seconds, [] { return 1.0; });
  }
  c.report(share_metric("pages", "event"), 12);
  c.verify("made up", [] { return 0.0; }, 0);
}

const Registration own_registration =
    Workload("own/readings", own_readings)
        .summary("readings of a workload's own")
        .metrics({"pages"})
        .reported({"seconds", "there", "back"})
        .cpu_only()
        .axis({.name = "bytes", .help = "host memory", .default_value = 4096, .minimum = 1, .bytes = true})
        .axis({.name = "what",
               .help = "kind of reading",
               .default_value = "one",
               .choices = {"one", "several", "unequal", "slow_inputs", "slow_samples", "invalid", "batched",
                           "unsettled", "coarse", "unlatched"}});

__global__ void fixture_wait(double seconds) {
  const double begin = device::device_seconds();
  while (device::device_seconds() - begin < seconds) device::spin_wait();
}

void waits_in_a_kernel(Case& c) {
  device::Stream stream;
  c.sampling().sample(time_metric("seconds", "clock"), [&] {
    launch(stream, ISTHMUS_KERNEL(fixture_wait), {.grid = 1, .block = 1},
           1e-3 * static_cast<double>(c.extent("milliseconds")));
    stream.synchronize();
    return 1e-3 * static_cast<double>(c.extent("milliseconds"));
  });
  c.verify("made up", [] { return 0.0; }, 0);
}

const Registration waiting_registration =
    Workload("own/kernel", waits_in_a_kernel)
        .summary("one kernel that waits")
        .metrics({"seconds"})
        .axis({.name = "milliseconds", .help = "how long it waits", .default_value = 1, .minimum = 1});

// Returns values from a fresh process, or ends the process in one of several ways.
std::vector<double> in_a_fresh_process(int what) {
  if (what == 1) throw device::Error(device::ErrorKind::unsupported, "count", "there is nothing", "try another");
  if (what == 2) throw std::runtime_error("it went wrong");
  if (what == 3) static_cast<void>(raise(SIGKILL));
  if (what == 4) static_cast<void>(std::atexit([] { _exit(5); }));
  return {static_cast<double>(what), static_cast<double>(getpid()), 1.0 / 3};
}
const FreshProcess fresh("fixture/fresh", in_a_fresh_process);

void fresh_process(Case& c) {
  const auto what = static_cast<int>(c.integer("what"));
  c.sampling().limit(3, 1);
  c.once(time_metric("first", "clock"), 2.5);
  int processes = 0;
  bool right = true;
  double last = static_cast<double>(getpid());
  c.sampling().sample(time_metric("process", "clock"), [&] {
    const double begin = now();
    const auto found = fresh.run(what);
    right = right && found.size() == 3 && found[0] == what && found[1] != last && found[2] == 1.0 / 3;
    last = found.at(1);
    ++processes;
    return now() - begin;
  });
  c.report(share_metric("processes", "event"), processes);
  c.verify("each process told its own", [&] { return right ? 0.0 : 1.0; }, 0);
}

const Registration fresh_registration =
    Workload("fresh/process", fresh_process)
        .summary("readings in fresh processes")
        .metrics({"first", "process", "processes"})
        .cpu_only()
        .axis({.name = "what", .help = "how the process ends", .default_value = 0, .minimum = 0});

// --- more managed memory than the device has ----------------------------------------------------------

// Writes the first word of each of `pages` pages, which have `step` words each.
__global__ void fixture_touch(std::size_t pages, std::size_t step, std::uint32_t* words) {
  for (std::size_t i = threadIdx.x; i < pages; i += blockDim.x) words[i * step] = 1;
}

class ManagedWords {
 public:
  explicit ManagedWords(std::size_t bytes) : words_(static_cast<std::uint32_t*>(device::malloc_managed(bytes))) {}
  ~ManagedWords() { device::free_managed(words_); }
  ManagedWords(const ManagedWords&) = delete;
  ManagedWords& operator=(const ManagedWords&) = delete;
  std::uint32_t* get() const { return words_; }

 private:
  std::uint32_t* words_;
};

void beyond(Case& c) {
  constexpr std::size_t kStep = 4096 / sizeof(std::uint32_t), kTouched = 512;
  const auto what = c.choice("what");
  for (const char* axis : {"memory", "driver_prefetch"}) static_cast<void>(c.choice(axis));
  c.needs(c.extent("bytes"), 0);
  ManagedWords memory(c.extent("bytes"));
  const auto touch = [&] {
    for (std::size_t i = 0; i < kTouched; ++i) memory.get()[i * kStep] = 0;
    launch(c.stream(), ISTHMUS_KERNEL(fixture_touch), {.grid = 1, .block = 64}, kTouched, kStep, memory.get());
    c.stream().synchronize();
  };
  c.sampling().sample(time_metric("touch", "clock"), [&] {
    const double begin = now();
    touch();
    // A hanging driver ignores requests to end, so this loop ignores them as well.
    while (what == "hangs") pause();
    // The sample takes longer than the watchdog's limit in the tests, but makes progress within that limit.
    while (what == "slow" && now() - begin < 5) {
      usleep(300'000);
      touch();
    }
    return now() - begin;
  });
  c.verify("touched", [&] { return memory.get()[0] == 1 ? 0.0 : 1.0; }, 0);
}

const Registration beyond_registration =
    Workload("fixture/beyond", beyond)
        .summary("touches some of its managed memory")
        .metrics({"touch"})
        .oversubscribes("bytes")
        .axis({.name = "bytes", .help = "managed memory", .default_value = 4 << 20, .minimum = 1, .bytes = true})
        .axis(choice_axis("what", "how it ends", {"well", "hangs", "slow"}))
        .axis(choice_axis("memory", "whose memory", {"managed", "pageable"}))
        .axis(how(choice_axis("driver_prefetch", "as in the catalogue", {"default", "off"})))
        .size("tiny", {{"bytes", 2 << 20}});

// Stands in for a move between two GPUs or memory nodes, as a member of a family. Moves nothing and does not use a GPU.
void move(Case& c, int from, int to, int gpus) {
  static_cast<void>(c.integer("node"));
  if (std::max(from, to) >= gpus) throw Skip("there is no gpu" + std::to_string(std::max(from, to)) + " here");
  const double bytes = static_cast<double>(c.extent("bytes"));
  c.sampling().sample(rate_metric("rate", "B/s", "clock", {2e9, "this test"}).moving(0, bytes), [&] { return 1e9; });
  c.verify("nothing moved", [] { return 0.0; }, 0);
}

std::vector<Workload> make_moves(const Machine& machine) {
  const auto kib = [](std::int64_t n) { return AxisValue(n << 10); };
  const auto move_workload = [&](const std::string& name, std::function<void(Case&)> function) {
    return Workload(name, std::move(function))
        .summary("moves nothing")
        .metrics({"rate"})
        .estimate([](const CaseSpec& spec) { return static_cast<double>(spec.integer("bytes")) / 1e9; })
        .cpu_only()
        .axis({.name = "bytes",
               .help = "bytes of one move",
               .default_value = kib(4),
               .minimum = 1,
               .bytes = true,
               .default_sweep = {kib(4), kib(64)},
               .size_sweep = {kib(4), kib(64), kib(1024)}})
        .axis({.name = "node", .help = "where", .default_value = -1, .minimum = -1, .all_values = {0, 1}})
        .size("tiny", {{"bytes", kib(4)}})
        .size("small", {{"bytes", kib(16)}});
  };
  std::vector<Workload> list;
  for (int from = 0; from < machine.gpus; ++from) {
    for (int to = 0; to < machine.gpus; ++to) {
      const auto name = "moves/gpu" + std::to_string(from) + "-gpu" + std::to_string(to) + "/ce";
      list.push_back(move_workload(name, [=](Case& c) {
                       static_cast<void>(c.integer("streams"));
                       move(c, from, to, device::count());
                     }).axis({.name = "streams", .help = "streams that move", .default_value = 1, .choices = {1, 2}}));
    }
  }
  for (const int node : machine.memory_nodes)
    list.push_back(move_workload("moves/node" + std::to_string(node) + "-all/cpu", [](Case& c) { move(c, 0, 0, 1); }));
  return list;
}
const Family moves("moves/", make_moves);

}  // namespace
}  // namespace isthmus
