// One cache line that moves back and forth: between two cores of the CPU, and between the CPU and a GPU.

#include <algorithm>
#include <atomic>
#include <thread>

#include "memory/pages.hpp"
#include "memory/processors.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/atomics/device_updates.hpp"
#include "microbench/atomics/family.hpp"
#include "microbench/axes.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench::atomics {

using namespace workload;

namespace {

/// Waits until word 0 of the line is `turn`. Returns false if the other side has not answered by `until`.
bool await(std::uint32_t* line, std::uint32_t turn, double until) {
  const std::atomic_ref<std::uint32_t> word(line[0]);
  for (unsigned wait = 1; word.load(std::memory_order_acquire) != turn; ++wait) {
    if (wait % 4096 != 0) continue;
    if (now() > until) return false;
    std::this_thread::yield();  // in case two threads share a processor after all
  }
  return true;
}

void send(std::uint32_t* line, std::uint32_t turn) {
  std::atomic_ref<std::uint32_t>(line[1]).store(payload(turn), std::memory_order_relaxed);
  std::atomic_ref<std::uint32_t>(line[0]).store(turn, std::memory_order_release);
}

/// Plays the odd-numbered turns of 2 · rounds turns and checks the payloads that the other side wrote. Returns the
/// number of errors.
std::size_t lead(std::uint32_t* line, std::uint32_t rounds) {
  const double until = now() + patience();
  std::size_t wrong = 0;
  for (std::uint32_t turn = 1; turn < 2 * rounds; turn += 2) {
    send(line, turn);
    if (!await(line, turn + 1, until)) return wrong + 1;
    wrong += std::atomic_ref<std::uint32_t>(line[1]).load(std::memory_order_relaxed) == payload(turn + 1) ? 0 : 1;
  }
  return wrong;
}

std::size_t follow(std::uint32_t* line, std::uint32_t rounds) {
  const double until = now() + patience();
  std::size_t wrong = 0;
  for (std::uint32_t turn = 1; turn < 2 * rounds; turn += 2) {
    if (!await(line, turn, until)) return wrong + 1;
    wrong += std::atomic_ref<std::uint32_t>(line[1]).load(std::memory_order_relaxed) == payload(turn) ? 0 : 1;
    send(line, turn + 1);
  }
  return wrong;
}

Metric latency(const char* name) {
  return time_metric(name, "clock", "latency has no known bound");
}

/// Pair of threads, each pinned to its own core.
class Pair {
 public:
  Pair(int first, int second) : pool_(std::vector<int>{first, second}) {}
  /// Plays `rounds` rounds and returns the seconds that the line takes in one direction.
  double run(std::uint32_t rounds) {
    alignas(256) std::uint32_t line[64] = {};
    std::size_t wrong[2] = {};
    double seconds = 0;
    pool_.run([&](unsigned member) {
      pool_.meet();
      const double begin = now();
      wrong[member] = member == 0 ? lead(line, rounds) : follow(line, rounds);
      if (member == 0) seconds = now() - begin;
    });
    wrong_ += wrong[0] + wrong[1] + (line[0] == 2 * rounds ? 0 : 1);
    return seconds / (2.0 * rounds);
  }
  std::size_t wrong() const { return wrong_; }
  bool kept_places() const { return pool_.kept_places(); }

 private:
  memory::ThreadPool pool_;
  std::size_t wrong_ = 0;
};

int core_of(const Case& c, const char* axis, std::size_t cores) {
  const auto core = c.integer(axis);
  if (core >= static_cast<std::int64_t>(cores))
    throw Skip("core " + std::to_string(core) + " does not exist for this process, which may use " +
               std::to_string(cores) + (cores == 1 ? " core" : " cores"));
  return static_cast<int>(core);
}

void between_cores(Case& c) {
  const auto& cores = memory::processors().cores;
  if (cores.size() < 2) throw Skip("this process may use only one core, but a line moves between two");
  const int first = core_of(c, "first", cores.size()), second = core_of(c, "second", cores.size());
  if (first == second && first >= 0)
    throw Skip("a line moves between two different cores: choose different ones", SkipKind::not_applicable);
  const auto rounds = static_cast<std::uint32_t>(c.extent("rounds"));
  c.needs(0, 0);
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < static_cast<int>(cores.size()); ++i) {
    for (int j = 0; j < static_cast<int>(cores.size()); ++j) {
      const bool asked = (first < 0 || first == i) && (second < 0 || second == j);
      const bool twice = first < 0 && second < 0 && j < i;  // each pair is measured once
      if (i != j && asked && !twice)
        pairs.emplace_back(cores[static_cast<std::size_t>(i)].processors.front(),
                           cores[static_cast<std::size_t>(j)].processors.front());
    }
  }
  std::size_t wrong = 0;
  bool kept = true;
  c.verify("each side found what the other left", [&] { return static_cast<double>(wrong); }, 0);
  const bool several = pairs.size() > 1;
  std::vector<Metric> metrics{latency("latency")};
  if (several) metrics.insert(metrics.end(), {latency("nearest"), latency("farthest")});
  c.sampling().sample(metrics, [&] {
    std::vector<double> kinds;
    for (const auto& [from, to] : pairs) {
      Pair pair(from, to);
      pair.run(std::min(rounds, 100u));  // wakes the threads and loads the line into their caches
      kinds.push_back(pair.run(rounds));
      wrong += pair.wrong();
      kept &= pair.kept_places();
    }
    c.sampling().batch(static_cast<int>(std::min<std::uint64_t>(2 * std::uint64_t{rounds}, 1u << 30)));
    std::sort(kinds.begin(), kinds.end());
    std::vector<double> values{(kinds[(kinds.size() - 1) / 2] + kinds[kinds.size() / 2]) / 2};
    if (several) values.insert(values.end(), {kinds.front(), kinds.back()});
    return values;
  });
  c.report(share_metric("pairs", "event"), static_cast<double>(pairs.size()));
  if (!kept) c.warn("threads_strayed", "the system refused to bind threads to their cores");
}

void with_gpu(Case& c, int gpu) {
  require_gpu(gpu);
  const auto info = device::info(gpu);
  const Kind kind = kind_of(c);
  require_kind(kind, Reader::gpu, info);
  const bool coherent = page_locked(kind) || info.integrated || info.host_native_atomics;
  if (!coherent || !shared_at_once(kind, info))
    throw Skip("the CPU and " + info.name + " do not share lines of " + std::string(name(kind)) +
               " memory: page faults migrate whole pages, or nothing migrates");
  const auto rounds = static_cast<std::uint32_t>(c.extent("rounds"));
  c.needs(memory::page_bytes(), 0);
  const device::Selected on(gpu);
  const memory::Block line_block(kind, memory::page_bytes()), wrong_block(Kind::device, sizeof(std::uint32_t));
  auto* line = reinterpret_cast<std::uint32_t*>(line_block.data());
  device::Stream stream;
  device::load_kernels();
  std::size_t wrong = 0;
  const auto run = [&](std::uint32_t turns) {
    send(line, 0);
    queue_ping_pong(stream, reinterpret_cast<std::uint32_t*>(line_block.device_data()), turns + 1, patience(),
                    reinterpret_cast<std::uint32_t*>(wrong_block.data()));
    // The first round is not timed, since it also waits for the kernel to begin.
    const double until = now() + patience();
    send(line, 1);
    if (!await(line, 2, until)) ++wrong;
    const double begin = now();
    for (std::uint32_t turn = 3; turn < 2 * turns + 2; turn += 2) {
      send(line, turn);
      if (!await(line, turn + 1, until)) {
        ++wrong;
        break;
      }
      wrong += std::atomic_ref<std::uint32_t>(line[1]).load(std::memory_order_relaxed) == payload(turn + 1) ? 0 : 1;
    }
    const double seconds = now() - begin;
    stream.synchronize();
    std::uint32_t found = 0;
    device::copy(&found, wrong_block.data(), sizeof found);
    wrong += found;
    return seconds / (2.0 * turns);
  };
  c.verify("each side found what the other left", [&] { return static_cast<double>(wrong); }, 0);
  c.sampling().sample(latency("latency"), [&] {
    c.sampling().batch(static_cast<int>(std::min<std::uint64_t>(2 * std::uint64_t{rounds}, 1u << 30)));
    return run(rounds);
  });
}

Axis core_axis(const char* name) {
  Axis axis = number_axis(name, "index of a core among those that this process may use; -1: each", -1, -1);
  for (std::size_t core = 0; core < memory::processors().cores.size(); ++core)
    axis.all_values.emplace_back(static_cast<std::int64_t>(core));
  return axis;
}

Workload workload(std::string name, std::function<void(Case&)> run, std::string summary, std::int64_t rounds) {
  Workload w(std::move(name), std::move(run));
  w.version(1)
      .summary(std::move(summary))
      .source("mi300a-upm-2025, section IV-D; isthmus")
      .tags({"atomics", "latency"})
      .stagings({})
      .axis(number_axis("rounds", "round trips in one sample", rounds))
      .size("tiny", {{"rounds", std::min<std::int64_t>(rounds, 100)}})
      .size("small", {{"rounds", rounds}});
  return w;
}

}  // namespace

std::vector<Workload> ping_pong_workloads(const Machine& machine) {
  std::vector<Workload> list;
  auto cores = workload("atomics/cpu/ping-pong", between_cores, "one line between two cores, one way", 10'000);
  cores.axis(core_axis("first"))
      .axis(core_axis("second"))
      .cpu_only()
      .metrics({"latency", "pairs"})
      .estimate([](const CaseSpec& spec) {
        const auto count = static_cast<double>(memory::processors().cores.size());
        return 400e-9 * static_cast<double>(spec.integer("rounds")) * std::max(1.0, count * (count - 1) / 2);
      });
  list.push_back(std::move(cores));
  for (int gpu = 0; gpu < machine.gpus; ++gpu) {
    auto w = workload(
        "atomics/gpu" + std::to_string(gpu) + "/ping-pong", [gpu](Case& c) { with_gpu(c, gpu); },
        "one line between the CPU and gpu" + std::to_string(gpu) + ", one way", 1'000);
    std::vector<AxisValue> kinds;
    for (const Kind kind : {Kind::mapped, Kind::registered, Kind::managed, Kind::pageable, Kind::device})
      kinds.emplace_back(std::string(name(kind)));
    w.axis(choice_axis("memory", "how the line is allocated", kinds))
        .devices({gpu})
        .metrics({"latency"})
        .estimate([](const CaseSpec& spec) { return 4e-6 * static_cast<double>(spec.integer("rounds")); });
    list.push_back(std::move(w));
  }
  return list;
}

}  // namespace isthmus::microbench::atomics
