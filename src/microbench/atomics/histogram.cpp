// Atomic updates of bins in a pseudo-random order, by CPU threads, by a GPU, and by both at once.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "device/api/ignoring_errors.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "memory/parallel.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/atomics/device_updates.hpp"
#include "microbench/atomics/family.hpp"
#include "microbench/atomics/host_updates.hpp"
#include "microbench/axes.hpp"
#include "microbench/cpu_threads.hpp"
#include "microbench/launch_shape.hpp"
#include "microbench/require.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::atomics {

using namespace workload;

namespace {

template <class T>
constexpr Type type_of = std::is_same_v<T, std::uint32_t>        ? Type::u32
                         : std::is_same_v<T, unsigned long long> ? Type::u64
                         : std::is_same_v<T, float>              ? Type::f32
                                                                 : Type::f64;

/// Returns the largest count that a bin represents exactly.
template <class T>
constexpr std::uint64_t most_of_bin() {
  if constexpr (std::is_same_v<T, float>) return std::uint64_t{1} << 24;
  if constexpr (std::is_same_v<T, std::uint32_t>) return ~std::uint32_t{0};
  return std::uint64_t{1} << 53;
}

template <class Body>
void with_type(const Case& c, Body body) {
  const auto type = c.choice("type");
  if (type == "u32") return body(std::uint32_t{});
  if (type == "u64") return body(0ULL);
  if (type == "f32") return body(float{});
  return body(double{});
}

Order order_of(const Case& c) {
  const auto elements = static_cast<std::uint64_t>(c.extent("elements"));
  if ((elements & (elements - 1)) != 0)
    throw Skip(std::to_string(elements) + " bins are not a power of two", SkipKind::not_applicable);
  return {.bits = static_cast<unsigned>(__builtin_ctzll(elements)), .seed = c.seed()};
}

/// Bins of a case, and the updates since they were last cleared.
template <class T>
class Bins {
 public:
  /// Describes bins at `at`, the address that the host, or copies, use for them.
  Bins(const Order& order, T* at, bool on_host) : order_(order), at_(at), on_host_(on_host) {}

  std::size_t size() const { return std::size_t{1} << order_.bits; }
  void ran(const Run& run) {
    runs_.push_back(run);
    fullest_ += run.count / size() + 1;
  }
  /// Prepares for `count` more updates in `runs` runs. If a bin might then exceed the largest count that it represents
  /// exactly, the bins are checked and cleared first.
  void make_room(std::uint64_t count, std::uint64_t runs) {
    if (fullest_ + count / size() + runs < most_of_bin<T>()) return;
    wrong_ += wrong_now();
    clear();
  }
  void clear() {
    if (on_host_) {
      memory::fill_host(reinterpret_cast<std::byte*>(at_), size() * sizeof(T), std::byte{0});
    } else {
      device::Stream stream;
      device::fill_async(at_, 0, size() * sizeof(T), stream);
      stream.synchronize();
    }
    runs_.clear();
    fullest_ = 0;
  }
  /// Returns the number of wrong bins and wrong sums found so far.
  double wrong() { return static_cast<double>(wrong_ + wrong_now()); }

 private:
  std::size_t wrong_now() const {
    const Expected expected(order_, runs_);
    Comparison<T> all;
    if (on_host_) {
      all = compare(expected, at_, 0, size());
    } else {
      constexpr std::size_t kBounce = std::size_t{1} << 22;
      std::vector<T> bounce(std::min(size(), kBounce));
      for (std::size_t done = 0; done < size(); done += kBounce) {
        const std::size_t part = std::min(kBounce, size() - done);
        device::copy(bounce.data(), at_ + done, part * sizeof(T));
        const auto found = compare(expected, bounce.data(), done, part);
        all.wrong += found.wrong;
        all.sum += found.sum;
      }
    }
    return all.wrong + (all.sum == static_cast<double>(expected.total()) ? 0 : 1);
  }

  Order order_;
  T* at_;
  bool on_host_;
  std::vector<Run> runs_;
  std::uint64_t fullest_ = 0;  // upper limit of the count in any bin
  std::size_t wrong_ = 0;
};

constexpr const char* kUpdatesUnbounded = "the memory's peak rate of atomic updates is unknown";

int batch_of(double updates) {
  return static_cast<int>(std::clamp(updates, 1.0, 1e9));
}

/// Updates by CPU threads.
template <class T>
class HostSide {
 public:
  HostSide(const Order& order, T* bins, std::vector<int> processors)
      : order_(order), bins_(bins), pool_(std::move(processors)), own_(pool_.size()) {}

  unsigned size() const { return pool_.size(); }
  bool kept_places() const { return pool_.kept_places(); }
  void first_touch(int numa_node, std::size_t count) {
    pool_.run([&](unsigned thread) {
      const memory::ScopedMemoryNode on_node(numa_node);
      const auto part = memory::part_of(count, pool_.size(), thread);
      std::fill(bins_ + part.first, bins_ + part.last, T{});
    });
  }
  /// Lets each thread perform `most` updates, or fewer if `seconds` elapse first. Returns the updates per second of all
  /// threads, and records each thread's run in `bins`.
  double run(std::uint64_t most, double seconds, Bins<T>& bins) {
    constexpr std::uint64_t kAtOnce = 1024;
    const std::uint64_t first_run = runs_;
    runs_ += pool_.size();
    pool_.run([&](unsigned thread) {
      auto& own = own_[thread];
      own.run = {order_.start(first_run + thread), 0};
      pool_.meet();
      own.begin = now();
      own.end = own.begin;
      while (own.run.count < most && own.end - own.begin < seconds) {
        const auto count = std::isinf(seconds) ? most : std::min(kAtOnce, most - own.run.count);
        update(bins_, order_, own.run.start + own.run.count, count);
        own.run.count += count;
        own.end = now();
      }
    });
    double begin = own_[0].begin, end = own_[0].end;
    std::uint64_t all = 0;
    for (const auto& own : own_) {
      begin = std::min(begin, own.begin);
      end = std::max(end, own.end);
      all += own.run.count;
      bins.ran(own.run);
    }
    return static_cast<double>(all) / (end - begin);
  }

 private:
  struct alignas(128) Own {
    Run run;
    double begin = 0, end = 0;
  };
  Order order_;
  T* bins_;
  memory::ThreadPool pool_;
  std::vector<Own> own_;
  std::uint64_t runs_ = 0;
};

/// Returns the updates per thread: `wanted`, limited so that no bin exceeds the largest count that it represents
/// exactly.
template <class T>
std::uint64_t fitting(std::uint64_t wanted, std::uint64_t threads, std::size_t bins, std::uint64_t parts = 1) {
  const std::uint64_t most_of_each = most_of_bin<T>() / 2 / parts;
  const double most = static_cast<double>(most_of_each) * static_cast<double>(bins);
  const double each = std::min(static_cast<double>(wanted), std::floor(most / static_cast<double>(threads)));
  if (each < 1)
    throw Skip(std::to_string(threads) + " threads are more than these bins can count exactly",
               SkipKind::not_applicable);
  return static_cast<std::uint64_t>(each);
}

template <class T>
void on_cpu(Case& c) {
  const Order order = order_of(c);
  const std::size_t count = std::size_t{1} << order.bits;
  const ThreadPlaces places = thread_places(c);
  const std::uint64_t each = fitting<T>(c.extent("updates"), places.processors.size(), count);
  c.needs(count * sizeof(T), 0);
  c.note("cpu_instruction", host_instruction(type_of<T>));
  const memory::Block block(Kind::pageable, std::max(count * sizeof(T), memory::page_bytes()),
                            {.numa_node = places.memory_node});
  auto* at = reinterpret_cast<T*>(block.data());
  HostSide<T> threads(order, at, places.processors);
  threads.first_touch(places.memory_node, count);
  Bins<T> bins(order, at, true);
  const double all = static_cast<double>(each * threads.size());
  c.verify("every bin and their sum", [&] { return bins.wrong(); }, 0);
  c.sampling().sample(rate_metric("rate", "1/s", "clock", kUpdatesUnbounded), [&] {
    bins.make_room(each * threads.size(), threads.size());
    c.sampling().batch(batch_of(all));
    return threads.run(each, INFINITY, bins);
  });
  if (!threads.kept_places()) c.warn("threads_strayed", "the system refused to bind threads to their cores");
}

/// Division of a GPU's threads into blocks and of their updates into chunks.
struct Cut {
  device::LaunchShape shape;
  unsigned per_thread = 1;
  std::uint64_t chunks = 1;
  std::uint64_t blocks() const { return shape.grid.size(); }
  std::uint64_t run() const { return std::uint64_t{per_thread} * shape.block.size(); }  // updates per block and chunk
  std::uint64_t all() const { return blocks() * run() * chunks; }
};

Cut cut_of(const Case& c, const device::DeviceInfo& info) {
  Cut cut;
  const auto threads = static_cast<std::uint64_t>(c.integer("gpu_threads"));
  const auto block = static_cast<unsigned>(c.extent("block"));
  if (block > static_cast<unsigned>(info.max_threads_per_block))
    throw Skip("a block of this device has at most " + std::to_string(info.max_threads_per_block) + " threads",
               SkipKind::not_applicable);
  // All blocks must run at once, so their number is limited to those that are resident at once.
  cut.shape = threads > 0 ? shape_for({.threads = static_cast<unsigned>(std::min<std::uint64_t>(block, threads)),
                                       .grid = static_cast<unsigned>(std::max<std::uint64_t>(1, threads / block))},
                                      threads, info)
                          : shape_for({.threads = block}, ~std::uint64_t{0} / 2, info);
  return cut;
}

template <class T>
void on_gpu(Case& c, int gpu) {
  require_gpu(gpu);
  const auto info = device::info(gpu);
  const Kind kind = kind_of(c);
  require_kind(kind, Reader::gpu, info);
  const Order order = order_of(c);
  const std::size_t count = std::size_t{1} << order.bits, bytes = count * sizeof(T);
  Cut cut = cut_of(c, info);
  const std::uint64_t threads = cut.blocks() * cut.shape.block.size();
  const std::uint64_t each = fitting<T>(std::max<std::uint64_t>(1, c.extent("updates") / threads), threads, count);
  cut.per_thread = static_cast<unsigned>(std::min<std::uint64_t>(each, 64));
  cut.chunks = each / cut.per_thread;
  const bool on_host = page_locked(kind) || kind == Kind::pageable;
  c.needs(on_device(kind) ? 0 : bytes, on_host ? 0 : bytes);
  const bool system_scope = c.choice("scope") == "system";
  c.note("gpu_instruction", device_instruction(type_of<T>, system_scope));

  const device::Selected on(gpu);
  const memory::Block block(kind, bytes), done(Kind::device, cut.blocks() * sizeof(unsigned long long));
  for (auto& sentence : block.disagreements("the array")) c.warn("placement_disagrees", std::move(sentence));
  auto* at = reinterpret_cast<T*>(block.device_data());
  Bins<T> bins(order, reinterpret_cast<T*>(block.data()), on_host);
  bins.clear();
  std::uint64_t next_run = 0;
  Lane lane;
  lane.device = gpu;
  lane.queue = [&](device::Stream& stream) {
    const Work work{.chunks = cut.chunks,
                    .per_thread = cut.per_thread,
                    .first_run = next_run,
                    .system_scope = system_scope,
                    .flags = nullptr};
    queue_updates(stream, at, order, work, cut.shape, reinterpret_cast<unsigned long long*>(done.data()));
    for (std::uint64_t b = 0; b < cut.blocks(); ++b) bins.ran({order.start(next_run + b), cut.run() * cut.chunks});
    next_run += cut.blocks();
  };
  Lanes lanes(c, {std::move(lane)});
  c.verify("every bin and their sum", [&] { return bins.wrong(); }, 0);
  c.sampling().sample(rate_metric("rate", "1/s", lanes.timer(), kUpdatesUnbounded), [&] {
    bins.make_room(cut.all(), cut.blocks());
    const auto taken = read(c, lanes);
    c.sampling().batch(batch_of(static_cast<double>(cut.all())));
    return static_cast<double>(cut.all()) / taken.all;
  });
}

/// Returns why atomics of CPU and GPU on such memory are not atomic with respect to each other; nullopt if they are.
std::optional<std::string> not_coherent(Kind kind, const device::DeviceInfo& info) {
  if (auto reason = unsupported_reason(kind, Reader::gpu, info)) return reason;
  if (!shared_at_once(kind, info))
    return info.name + " cannot share " + std::string(name(kind)) + " memory with the CPU at the same time";
  if (page_locked(kind) && !info.host_native_atomics && !info.integrated)
    return "the link of " + info.name +
           " has no atomics on host memory, so those of CPU and GPU would not be atomic to each other";
  return std::nullopt;
}

/// Updates by a GPU that continue until they are stopped.
template <class T>
class DeviceSide {
 public:
  DeviceSide(const Order& order, T* bins, const Cut& cut, bool system_scope)
      : order_(order),
        bins_(bins),
        cut_(cut),
        system_scope_(system_scope),
        flag_block_(Kind::mapped, memory::page_bytes()),
        done_block_(Kind::device, cut.blocks() * sizeof(unsigned long long)),
        done_(cut.blocks()) {}

  ~DeviceSide() {
    device::ignoring_errors([this] { stream_.synchronize(); });  // the kernel must not outlive its flags
  }
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  /// Runs `meanwhile` while the kernel performs its updates, then stops the kernel. Returns the kernel's updates per
  /// second, and records each block's run in `bins`.
  template <class Meanwhile>
  double run(Bins<T>& bins, Meanwhile meanwhile) {
    auto* flags = reinterpret_cast<std::uint32_t*>(flag_block_.data());
    std::atomic_ref<std::uint32_t>(flags[0]).store(0);
    std::atomic_ref<std::uint32_t>(flags[1]).store(0);
    const Work work{.chunks = cut_.chunks,
                    .per_thread = cut_.per_thread,
                    .first_run = next_run_,
                    .system_scope = system_scope_,
                    .flags = reinterpret_cast<std::uint32_t*>(flag_block_.device_data())};
    {
      const Stop at_the_end{flags[1]};  // also on failure, because the kernel would otherwise run on
      begin_.record(stream_);
      queue_updates(stream_, bins_, order_, work, cut_.shape,
                    reinterpret_cast<unsigned long long*>(done_block_.data()));
      end_.record(stream_);
      const double since = now(), limit = patience();
      while (std::atomic_ref<std::uint32_t>(flags[0]).load(std::memory_order_acquire) == 0) {
        if (now() - since > limit)
          throw std::runtime_error(fmt::format(
              "the kernel did not begin within {:.0f} s; check whether others use the GPU or the processors", limit));
        std::this_thread::yield();
      }
      meanwhile();
    }
    stream_.synchronize();
    device::copy(done_.data(), done_block_.data(), done_.size() * sizeof done_[0]);
    std::uint64_t all = 0;
    for (std::size_t b = 0; b < done_.size(); ++b) {
      bins.ran({order_.start(next_run_ + b), done_[b] * cut_.run()});
      all += done_[b] * cut_.run();
    }
    next_run_ += cut_.blocks();
    return static_cast<double>(all) / device::elapsed(begin_, end_);
  }

 private:
  struct Stop {
    std::uint32_t& flag;
    ~Stop() { std::atomic_ref<std::uint32_t>(flag).store(1, std::memory_order_release); }
  };
  Order order_;
  T* bins_;
  Cut cut_;
  bool system_scope_;
  memory::Block flag_block_, done_block_;
  std::vector<unsigned long long> done_;
  device::Stream stream_;
  device::Event begin_, end_;
  std::uint64_t next_run_ = std::uint64_t{1} << 32;  // lower numbers are for runs of the CPU
};

void wait_for(double seconds) {
  const double since = now();
  while (now() - since < seconds) std::this_thread::yield();
}

template <class T>
void on_both(Case& c, int gpu) {
  require_gpu(gpu);
  const auto info = device::info(gpu);
  const Kind kind = kind_of(c);
  if (auto reason = not_coherent(kind, info)) throw Skip(*reason);
  require_kind(Kind::mapped, Reader::gpu, info);  // for the flags of DeviceSide
  const Order order = order_of(c);
  const std::size_t count = std::size_t{1} << order.bits, bytes = std::max(count * sizeof(T), memory::page_bytes());
  const ThreadPlaces places = thread_places(c);
  Cut cut = cut_of(c, info);
  cut.per_thread = 16;
  // The GPU may use half of the largest count that a bin represents exactly, the CPU the other half.
  const std::uint64_t threads = cut.blocks() * cut.shape.block.size();
  const std::uint64_t most_gpu = fitting<T>(std::uint64_t{1} << 24, threads, count, 2);
  cut.per_thread = static_cast<unsigned>(std::min<std::uint64_t>(cut.per_thread, most_gpu));
  cut.chunks = most_gpu / cut.per_thread;
  const std::uint64_t most_cpu = fitting<T>(std::uint64_t{1} << 32, places.processors.size(), count, 2);
  c.needs(bytes, on_device(kind) || is_managed(kind) ? bytes : 0);
  const bool system_scope = c.choice("scope") == "system";
  c.note("cpu_instruction", host_instruction(type_of<T>));
  c.note("gpu_instruction", device_instruction(type_of<T>, system_scope));

  const device::Selected on(gpu);
  const memory::Block block(kind, bytes, {.numa_node = places.memory_node});
  auto* at = reinterpret_cast<T*>(block.data());
  HostSide<T> host(order, at, places.processors);
  host.first_touch(places.memory_node, count);
  for (auto& sentence : block.disagreements("the array")) c.warn("placement_disagrees", std::move(sentence));
  Bins<T> bins(order, at, true);
  DeviceSide<T> device_side(order, reinterpret_cast<T*>(block.device_data()), cut, system_scope);
  const std::uint64_t most = most_cpu * host.size() + cut.all(), runs = host.size() + cut.blocks();
  const auto make_room = [&] { bins.make_room(most, runs); };

  // Each side first runs alone briefly. From its rate, a window is chosen that ends before either side reaches its
  // maximum number of updates.
  double window = 1e-3 * static_cast<double>(c.extent("microseconds")) * 1e-3;
  make_room();
  const double gpu_first = device_side.run(bins, [&] { wait_for(window / 20); });
  make_room();
  const double cpu_first = host.run(most_cpu, window / 20, bins);
  window = std::min({window, 0.5 * static_cast<double>(cut.all()) / gpu_first,
                     0.5 * static_cast<double>(most_cpu * host.size()) / cpu_first});

  c.verify("every bin and their sum", [&] { return bins.wrong(); }, 0);
  c.sampling().sample(
      {rate_metric("cpu_rate", "1/s", "clock", kUpdatesUnbounded),
       rate_metric("gpu_rate", "1/s", "event", kUpdatesUnbounded),
       rate_metric("cpu_alone", "1/s", "clock", kUpdatesUnbounded),
       rate_metric("gpu_alone", "1/s", "event", kUpdatesUnbounded), share_metric("cpu_relative", "none", "a ratio"),
       share_metric("gpu_relative", "none", "a ratio")},
      [&] {
        make_room();
        const double cpu_alone = host.run(most_cpu, window, bins);
        make_room();
        const double gpu_alone = device_side.run(bins, [&] { wait_for(window); });
        make_room();
        double cpu = 0;
        const double gpu_rate = device_side.run(bins, [&] { cpu = host.run(most_cpu, window, bins); });
        c.sampling().batch(batch_of(window * std::min({cpu_alone, gpu_alone, cpu, gpu_rate})));
        return std::vector{cpu, gpu_rate, cpu_alone, gpu_alone, cpu / cpu_alone, gpu_rate / gpu_alone};
      });
}

void add_axes(Workload& w) {
  constexpr std::int64_t k1Ki = std::int64_t{1} << 10, k1Mi = std::int64_t{1} << 20, k1Gi = std::int64_t{1} << 30;
  w.axis(choice_axis("type", "type of a bin", {"u64", "u32", "f32", "f64"}).with_default_sweep_of_all())
      .axis(number_axis("elements", "bins, a power of two", k1Mi)
                .with_default_sweep({1, k1Ki, k1Mi})
                .with_all_values({1, k1Ki, k1Mi, k1Gi})
                .with_size_sweep(powers(1, k1Gi)));
  w.sizes({"elements"}, {k1Ki, k1Mi, std::int64_t{1} << 24, std::int64_t{1} << 27, k1Gi});
}

void add_gpu_axes(Workload& w, bool shared) {
  std::vector<AxisValue> kinds;
  for (const Kind kind : axis_kinds()) {
    if (kind == Kind::pool || kind == Kind::pinned || kind == Kind::write_combined) continue;
    kinds.emplace_back(std::string(name(kind)));
  }
  if (shared) std::rotate(kinds.begin(), kinds.begin() + 1, kinds.end());  // device memory last: few GPUs can share it
  Axis scope = choice_axis("scope", "memory order of the GPU's atomics", {"system", "device"});
  if (!shared) scope.default_sweep = scope.choices;
  w.axis(choice_axis("memory", "how the bins are allocated", kinds))
      .axis(std::move(scope))
      .axis(number_axis("gpu_threads", "threads on the GPU; 0: as many as are resident", 0, 0))
      .axis(number_axis("block", "threads per block", shared ? 64 : 256));
}

Workload workload(std::string name, std::function<void(Case&)> run, std::string summary) {
  Workload w(std::move(name), std::move(run));
  w.version(1)
      .summary(std::move(summary))
      .source("mi300a-upm-2025, section IV-D, Figures 4 and 5")
      .tags({"atomics"})
      .stagings({});
  add_axes(w);
  return w;
}

}  // namespace

std::vector<Workload> histogram_workloads(const Machine& machine) {
  std::vector<Workload> list;
  {
    auto w = workload(
        "atomics/cpu/histogram", [](Case& c) { with_type(c, [&](auto type) { on_cpu<decltype(type)>(c); }); },
        "atomic updates of bins by threads of the CPU");
    w.axis(number_axis("updates", "updates by one thread in a sample", std::int64_t{1} << 18));
    add_thread_axes(w, machine, true);
    w.metrics({"rate"}).cpu_only().estimate(
        [](const CaseSpec& spec) { return 50e-9 * static_cast<double>(spec.integer("updates")); });
    list.push_back(std::move(w));
  }
  for (int gpu = 0; gpu < machine.gpus; ++gpu) {
    const std::string prefix = "atomics/gpu" + std::to_string(gpu) + "/";
    auto alone = workload(
        prefix + "histogram", [gpu](Case& c) { with_type(c, [&](auto type) { on_gpu<decltype(type)>(c, gpu); }); },
        "atomic updates of bins by gpu" + std::to_string(gpu));
    add_gpu_axes(alone, false);
    alone.axis(number_axis("updates", "updates by all threads in a sample", std::int64_t{1} << 23))
        .metrics({"rate"})
        .devices({gpu})
        .estimate([](const CaseSpec& spec) { return 1e-9 * static_cast<double>(spec.integer("updates")); });
    list.push_back(std::move(alone));
    auto both = workload(
        prefix + "shared-histogram",
        [gpu](Case& c) { with_type(c, [&](auto type) { on_both<decltype(type)>(c, gpu); }); },
        "atomic updates of the same bins by the CPU and gpu" + std::to_string(gpu) + " at once, and by each alone");
    add_gpu_axes(both, true);
    add_thread_axes(both, machine, false);
    both.axis(number_axis("microseconds", "seconds for which each side updates in a sample", 10'000))
        .metrics({"cpu_rate", "gpu_rate", "cpu_alone", "gpu_alone", "cpu_relative", "gpu_relative"})
        .devices({gpu})
        .estimate([](const CaseSpec& spec) {
          // Each sample runs both sides alone and together, and each of these runs checks all bins.
          const double check = device::backend() == device::Backend::emulator ? 300e-9 : 20e-9;
          return 3e-6 * static_cast<double>(spec.integer("microseconds")) +
                 check * static_cast<double>(spec.integer("elements"));
        });
    list.push_back(std::move(both));
  }
  return list;
}

}  // namespace isthmus::microbench::atomics
