// Workloads of the tests: small enough for the emulator, one per thing that the harness must get right or notice.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/kernel.hpp"
#include "harness/fresh_process.hpp"
#include "harness/workload.hpp"

namespace isthmus::harness {
namespace {

using device::launch;

// y[i] = a * x[i] + y[i]
__global__ void fixture_saxpy(std::size_t first, std::size_t count, float a, const float* x, float* y) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    y[first + i] = a * x[first + i] + y[first + i];
}

// out[i] = in[i-1] + in[i] + in[i+1], zero outside
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
  c.traffic({.bytes_read = 2 * bytes, .bytes_written = bytes, .flops = 2.0 * static_cast<double>(n)});
  const device::LaunchShape shape{.grid = 4, .block = threads};
  c.kernel(device::kernel_info(ISTHMUS_KERNEL(fixture_saxpy), shape), shape);
  if (c.choice("fault") == "unverified") {
    c.measure([&](const Launch& at) {
      launch(at.stream, ISTHMUS_KERNEL(fixture_saxpy), shape, at.chunk.first, at.chunk.count, 2.0f, x.device(),
             y.device());
    });
    return;
  }
  c.verify(y, [=](std::size_t i) { return 2.0f * ux(i) + uy(i); }, {.absolute = 1e-6, .relative = 1e-6});
  c.measure([&](const Launch& at) {
    if (missing) return;
    const std::size_t count = wrong ? at.chunk.count - 1 : at.chunk.count;
    launch(at.stream, ISTHMUS_KERNEL(fixture_saxpy), shape, at.chunk.first, count, 2.0f, x.device(), y.device());
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
        .axis({"threads",
               "threads of a block",
               std::int64_t{64},
               {std::int64_t{32}, std::int64_t{64}, std::int64_t{128}}})
        .axis({"fault", "what is wrong with the kernel", "none", {"none", "wrong", "missing", "unverified"}})
        .size("tiny", {{"n", std::int64_t{4096}}})
        .size("small", {{"n", std::int64_t{65536}}})
        .size("mega", {{"n", std::int64_t{1} << 40}})
        .preset({"fixture-fig1",
                 "a sweep",
                 {{"n", std::int64_t{2048}}},
                 {"tiny"},
                 "threads",
                 {std::int64_t{32}, std::int64_t{128}},
                 {"baseline", "pm"}});

void stencil(Case& c) {
  const auto n = c.extent("n");
  const auto u = uniform(c.seed(), 0, 0, 1);
  auto in = c.input<float>("in", n, u, {sizeof(float), 1});
  auto out = c.output<float>("out", n, {sizeof(float), 0});
  c.chunks(n);
  c.traffic({.bytes_read = 4.0 * static_cast<double>(n), .bytes_written = 4.0 * static_cast<double>(n)});
  c.measure([&](const Launch& at) {
    launch(at.stream, ISTHMUS_KERNEL(fixture_stencil), {.grid = 2, .block = 64}, at.chunk.first, at.chunk.count, n,
           in.device(), out.device());
  });
  c.verify(out, [=](std::size_t i) { return (i > 0 ? u(i - 1) : 0.0f) + u(i) + (i + 1 < n ? u(i + 1) : 0.0f); },
           {.relative = 1e-6});
}

const Registration stencil_registration = Workload("fixture/stencil", stencil)
                                              .summary("three-point sum, checked after measuring")
                                              .placements(memory::all_placements())
                                              .stagings({Staging::direct})
                                              .axis({"n", "elements", std::int64_t{1000}, {}, 1})
                                              .size("tiny", {{"n", std::int64_t{1000}}});

void host_loop(Case& c) {
  const double preparing = now();
  while (now() - preparing < 20e-3) {
  }
  double total = 0;
  c.sample({.name = "loop", .unit = "s", .timer = "clock"}, [&] {
    const double begin = now();
    while (now() - begin < 200e-6) total += 1;
    return now() - begin;
  });
  c.verify("counts", [&] { return total > 0 ? 0.0 : 1.0; }, 0.5);
}

const Registration host_registration =
    Workload("fixture/host_loop", host_loop)
        .summary("native work")
        .metrics({"loop"})
        .native()
        .preset({.name = "fixture-repeated", .help = "twice, for a while", .processes = 2, .least_time = 0.05});

void skips(Case&) {
  throw Skip("this workload never runs");
}
const Registration skip_registration = Workload("fixture/skips", skips).summary("skips").unverified("it never runs");

// Readings of a workload's own, one kind per value of the axis; values are made up and need no time.
void own_readings(Case& c) {
  const auto what = c.choice("what");
  const auto bytes = c.extent("bytes");
  int taken = 0;
  c.needs(bytes, 0);
  if (what == "unlatched") c.latch();
  const Metric seconds{.name = "seconds", .unit = "s", .timer = "clock"};
  const Metric there{.name = "there", .unit = "B/s", .better = Better::higher, .timer = "clock", .bytes_moved = 1e6};
  const Metric back{.name = "back",
                    .unit = "B/s",
                    .better = Better::higher,
                    .timer = "clock",
                    .bytes_moved = 1e6,
                    .limit_reason = "this test knows none"};
  if (what == "several") {  // the second settles late
    c.sample({there, back}, [&] {
      ++taken;
      return std::vector{1e9, taken < 10 ? 1e9 * taken : 1e9};
    });
  } else if (what == "unequal") {
    c.sample({there, back}, [] { return std::vector{1.0}; });
  } else if (what == "spoilt") {
    c.sample(seconds, [&] {
      if (++taken == 4) c.spoil("late", "something came in between");
      return taken == 4 ? 100.0 : 1.0;
    });
  } else if (what == "batched") {
    c.sample(seconds, [&] {
      c.batch(64);
      return c.least_seconds("clock") / 64;
    });
  } else if (what == "unsettled") {
    c.sample(seconds, [&] { return static_cast<double>(++taken); });
  } else if (what == "coarse") {
    c.sample({there, seconds}, [&] { return std::vector{1e12, c.least_seconds("clock")}; });
  } else {
    c.sample(seconds, [] { return 1.0; });
  }
  c.observe({.name = "pages", .unit = "1", .better = Better::higher}, 12);
  c.verify("made up", [] { return 0.0; }, 0);
}

const Registration own_registration =
    Workload("own/readings", own_readings)
        .summary("readings of a workload's own")
        .metrics({"seconds", "there", "back", "pages"})
        .native()
        .axis(
            {.name = "bytes", .help = "host memory", .default_value = std::int64_t{4096}, .minimum = 1, .bytes = true})
        .axis({.name = "what",
               .help = "kind of reading",
               .default_value = "one",
               .allowed = {"one", "several", "unequal", "spoilt", "batched", "unsettled", "coarse", "unlatched"}});

// Readings in processes of their own.
std::vector<double> in_a_fresh_process(int what) {
  if (what == 1) throw device::Error(device::ErrorKind::unsupported, "count", "there is nothing", "try another");
  if (what == 2) throw std::runtime_error("it went wrong");
  if (what == 3) static_cast<void>(raise(SIGKILL));
  return {static_cast<double>(what), static_cast<double>(getpid()), 1.0 / 3};
}
const FreshProcess fresh("fixture/fresh", in_a_fresh_process);

void fresh_process(Case& c) {
  const auto what = static_cast<int>(c.integer("what"));
  c.sparing(3, 1);
  c.once({.name = "first", .unit = "s", .timer = "clock"}, 2.5);
  int processes = 0;
  bool right = true;
  double last = static_cast<double>(getpid());
  c.sample({.name = "process", .unit = "s", .timer = "clock"}, [&] {
    const double begin = now();
    const auto found = fresh.run(what);
    right = right && found.size() == 3 && found[0] == what && found[1] != last && found[2] == 1.0 / 3;
    last = found.at(1);
    ++processes;
    return now() - begin;
  });
  c.observe({.name = "processes", .unit = "1", .better = Better::higher}, processes);
  c.verify("each process told its own", [&] { return right ? 0.0 : 1.0; }, 0);
}

const Registration fresh_registration =
    Workload("fresh/process", fresh_process)
        .summary("readings in fresh processes")
        .metrics({"first", "process", "processes"})
        .native()
        .axis({.name = "what", .help = "how the process ends", .default_value = std::int64_t{0}, .minimum = 0});

// A family: one move for each pair of places, the GPUs first. It never touches a GPU: nothing is moved at all.
void move(Case& c, int from, int to, int gpus) {
  if (std::max(from, to) >= gpus) throw Skip("there is no gpu" + std::to_string(std::max(from, to)) + " here");
  const double bytes = static_cast<double>(c.extent("bytes"));
  c.sample({.name = "rate",
            .unit = "B/s",
            .better = Better::higher,
            .timer = "clock",
            .bytes_moved = bytes,
            .limit = 2e9,
            .limit_source = "this test"},
           [&] { return 1e9; });
  c.verify("nothing moved", [] { return 0.0; }, 0);
}

std::vector<Workload> make_moves(const Machine& machine) {
  const auto kib = [](std::int64_t n) { return AxisValue(n << 10); };
  const auto move_workload = [&](const std::string& name, std::function<void(Case&)> function) {
    return Workload(name, std::move(function))
        .summary("moves nothing")
        .metrics({"rate"})
        .estimate([](const CaseSpec& spec) { return static_cast<double>(spec.integer("bytes")) / 1e9; })
        .native()
        .axis({.name = "bytes",
               .help = "bytes of one move",
               .default_value = kib(4),
               .minimum = 1,
               .bytes = true,
               .usual = {kib(4), kib(64)},
               .sweep = {kib(4), kib(64), kib(1024)}})
        .axis({.name = "node",
               .help = "where",
               .default_value = std::int64_t{-1},
               .minimum = -1,
               .listed = {std::int64_t{0}, std::int64_t{1}}})
        .size("tiny", {{"bytes", kib(4)}})
        .size("small", {{"bytes", kib(16)}});
  };
  std::vector<Workload> list;
  for (int from = 0; from < machine.gpus; ++from) {
    for (int to = 0; to < machine.gpus; ++to) {
      const auto name = "moves/gpu" + std::to_string(from) + "-gpu" + std::to_string(to) + "/ce";
      list.push_back(move_workload(name, [=](Case& c) { move(c, from, to, device::count()); })
                         .axis({.name = "streams",
                                .help = "streams that move",
                                .default_value = std::int64_t{1},
                                .allowed = {std::int64_t{1}, std::int64_t{2}}}));
    }
  }
  for (const int node : machine.memory_nodes)
    list.push_back(move_workload("moves/node" + std::to_string(node) + "-all/cpu", [](Case& c) { move(c, 0, 0, 1); }));
  return list;
}
const Family moves("moves/", make_moves);

}  // namespace
}  // namespace isthmus::harness
