// stream/gpu<N>/<operation>: bandwidth of a GPU to memory of every kind.
// stream/gpu<N>/cpu-<operation>: bandwidth of the CPU to memory allocated for that GPU.

#include <algorithm>

#include "memory/processors.hpp"
#include "microbench/axes.hpp"
#include "microbench/require.hpp"
#include "microbench/stream/checks.hpp"
#include "microbench/stream/device_kernels.hpp"
#include "microbench/stream/family.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::stream {

using namespace workload;

namespace {

/// Arrays in one kind of memory.
class KindArrays {
 public:
  KindArrays(const Layout& layout, Kind kind, memory::BlockOptions options)
      : block_(kind, layout.bytes(), options),
        host_(layout.at(block_.data())),
        device_(layout.at(block_.device_data())) {}

  const Arrays& host() const { return host_; }
  const Arrays& device() const { return device_; }

  /// Writes the inputs, and poison into the output, with kernels.
  void write_by_gpu(std::uint64_t seed, const device::DeviceInfo& info) {
    device::Stream stream;
    if (device_.first != nullptr) queue_input(stream, device_.first, device_.count, seed, 0, info);
    if (device_.second != nullptr) queue_input(stream, device_.second, device_.count, seed, 1, info);
    if (device_.out != nullptr) queue_poison(stream, device_.out, device_.count, info);
    stream.synchronize();
  }
  void report(Case& c) const {
    for (auto& sentence : block_.disagreements("the memory")) c.warn("placement_disagrees", std::move(sentence));
  }

 private:
  memory::Block block_;
  Arrays host_, device_;
};

bool touched_by_cpu(const Case& c, Kind kind, const device::DeviceInfo& info) {
  if (c.choice("first_touch") != "cpu") return false;
  if (unsupported_reason(kind, Reader::cpu, info))
    throw Skip("the CPU cannot touch " + std::string(name(kind)) + " memory of " + info.name, SkipKind::not_applicable);
  return true;
}

void require_memory(Case& c, Kind kind, std::size_t bytes) {
  c.needs(on_device(kind) ? 0 : bytes, on_device(kind) || is_managed(kind) ? bytes : 0);
}

/// Returns the limit that the hardware sets for the rate, with bytes counted as in STREAM.
Bound bound(Operation operation, Kind kind, const device::DeviceInfo& info) {
  if (kind == Kind::pageable && !info.integrated) return "the system decides where pageable memory is";
  if (!page_locked(kind) || info.integrated)
    return {info.memory_bandwidth, "peak device memory bandwidth", "the device does not report its memory bandwidth"};
  std::string reason;
  const auto link = device::link(info.index, -1, &reason);
  if (!link) return {std::nullopt, reason};
  const auto& operation_facts = facts(operation);
  // Both directions of the link work at once; the one with more bytes determines the rate.
  return {link->rate * operation_facts.arrays() / std::max(operation_facts.reads, operation_facts.writes), link->text};
}

void run_on_gpu(Case& c, Operation operation, int gpu) {
  require_gpu(gpu);
  const auto info = device::info(gpu);
  const Kind kind = kind_of(c);
  require_kind(kind, Reader::gpu, info);
  const bool by_cpu = touched_by_cpu(c, kind, info);
  const auto node = static_cast<int>(c.integer("node"));
  require_node(node);
  const Layout layout = layout_of(c, operation, false);
  const std::size_t count = layout.count;
  const auto& operation_facts = facts(operation);
  require_memory(c, kind, layout.bytes());
  const device::Selected on(gpu);
  const int memory_node = node >= 0 ? node : c.numa_node();
  const BlockRequest blocks{.threads = static_cast<unsigned>(c.extent("block")),
                            .grid = static_cast<unsigned>(c.integer("grid"))};

  KindArrays arrays(layout, kind, {.numa_node = memory_node});
  if (by_cpu) {
    HostTeam(memory::places(memory::processors().on_node(memory_node), 0, memory::Binding::close), memory_node)
        .write_inputs(arrays.host(), c.seed());
  } else {
    arrays.write_by_gpu(c.seed(), info);
  }
  arrays.report(c);
  const DescribedLaunch launched = describe(operation, count, blocks, info);
  c.kernel(launched.info, launched.shape);

  std::vector<double> sums(launched.shape.grid.size());
  const std::size_t sum_bytes = sums.size() * sizeof(double);
  const memory::Block device_sums(Kind::device, sum_bytes);
  auto* sums_on_device = reinterpret_cast<double*>(device_sums.data());

  Lane lane;
  lane.device = gpu;
  lane.queue = [&](device::Stream& stream) { queue(stream, operation, arrays.device(), sums_on_device, blocks, info); };
  Lanes lanes(c, {std::move(lane)});

  const double sum = operation == Operation::read ? expected_sum(c.seed(), count) : 0;
  const auto wrong = [&]() -> std::size_t {
    if (operation != Operation::read)
      return wrong_results(operation, c.seed(), arrays.host().out, count,
                           kind == Kind::write_combined                   ? Reach::through_device
                           : !unsupported_reason(kind, Reader::cpu, info) ? Reach::host
                                                                          : Reach::copies);
    device::copy(sums.data(), sums_on_device, sum_bytes);
    double found = 0;
    for (const double each : sums) found += each;
    return found == sum ? 0 : 1;
  };
  c.verify(
      "every element after all repetitions, and after one more over poison",
      [&] {
        const std::size_t after_all = wrong();
        device::Stream stream;
        device::fill_async(sums_on_device, 0xff, sum_bytes, stream);
        if (operation_facts.writes > 0) queue_poison(stream, arrays.device().out, count, info);
        stream.synchronize();
        lanes.run();
        return static_cast<double>(after_all + wrong());
      },
      0);

  const double needed = static_cast<double>(operation_facts.arrays() * count * sizeof(double));
  auto both = metrics(operation, count, lanes.timer(), needed);
  both[0].bound = both[1].bound = bound(operation, kind, info);
  if (both[1].bound.value) both[0].bound.value = needed / *both[1].bound.value;
  const int times =
      c.sampling().batch_for(lanes.timer(), c.sampling().largest_batch(), [&](int n) { return n * lanes.run(n).all; });
  c.sampling().sample(both, [&] {
    const double seconds = read(c, lanes, times).all;
    return std::vector{seconds, needed / seconds};
  });
}

void run_on_cpu(Case& c, Operation operation, int gpu) {
  require_gpu(gpu);
  const auto info = device::info(gpu);
  const Kind kind = kind_of(c);
  require_kind(kind, Reader::cpu, info);
  require_kind(kind, Reader::gpu, info);
  const bool by_cpu = touched_by_cpu(c, kind, info);
  const ThreadPlaces places = thread_places(c);
  const Stores stores = stores_of(c, operation);
  const Layout layout = layout_of(c, operation, true);
  require_memory(c, kind, layout.bytes());
  const device::Selected on(gpu);

  HostTeam team(places.processors, places.memory_node);
  device::load_kernels();  // loading them faults in pages of the runtime
  const auto before = memory::process_page_faults();
  KindArrays arrays(layout, kind, {.numa_node = places.memory_node});
  if (by_cpu) {
    team.write_inputs(arrays.host(), c.seed());
  } else {
    arrays.write_by_gpu(c.seed(), info);
  }
  observe_init(c, before);
  arrays.report(c);
  measure_on_cpu(c, operation, team, stores, arrays.host());
}

std::vector<AxisValue> kind_names(bool for_cpu) {
  std::vector<AxisValue> names;
  for (const Kind kind : axis_kinds()) {
    if (kind == Kind::pinned) continue;  // kernels reach it as `mapped`, or not at all
    // The CPU reads write-combined memory a hundred times more slowly than any other.
    if (!for_cpu || (kind != Kind::pool && kind != Kind::write_combined)) names.emplace_back(std::string(name(kind)));
  }
  return names;
}

Workload workload(Operation operation, int gpu, bool by_cpu, const Machine& machine) {
  const auto& operation_facts = facts(operation);
  const std::string name = "gpu" + std::to_string(gpu);
  Workload w("stream/" + name + (by_cpu ? "/cpu-" : "/") + std::string(operation_facts.name),
             [=](Case& c) { by_cpu ? run_on_cpu(c, operation, gpu) : run_on_gpu(c, operation, gpu); });
  w.version(1)
      .summary("memory of " + name + (by_cpu ? ", by threads of the CPU: " : ": ") +
               std::string(operation_facts.formula))
      .source("mi300a-upm-2025, section IV-B and Figure 3")
      .tags({"stream", by_cpu ? "cpu" : "gpu"})
      .devices({gpu})
      .stagings({})
      .metrics(by_cpu ? metrics_on_cpu() : std::vector<std::string>{"time", "rate"})
      .estimate([arrays = operation_facts.arrays()](const CaseSpec& spec) {
        const auto kind = spec.choice("memory");
        const double rate = kind == "device" || kind == "pool" || kind == "managed" ? 500e9 : 20e9;
        return 50e-6 + arrays * static_cast<double>(spec.integer("bytes")) / rate;
      });
  add_bytes_axis(w, 512 * kMi);
  w.axis(choice_axis("memory", "how the arrays are allocated", kind_names(by_cpu)).with_default_sweep_of_all())
      .axis(choice_axis("first_touch", "who touches the arrays first and writes the inputs", {"gpu", "cpu"}));
  if (by_cpu) {
    add_cpu_axes(w, operation, machine, false);
  } else {
    w.axis(node_axis(machine, "NUMA node of host memory; -1: the GPU's own"))
        .axis(number_axis("grid", "blocks of the kernel; 0: chosen for the GPU", 0, 0))
        .axis(number_axis("block", "threads per block", 1024));
  }
  add_sizes(w);
  if (operation == Operation::triad)
    w.preset(
        {.name = "paper-fig3",
         .help = "mi300a-upm-2025, Figure 3: arrays of 256 MiB on the GPU, 610 MiB on the CPU, all kinds of memory",
         .settings = {{"bytes", (by_cpu ? 610 : 256) * kMi}},
         .sweep_axis = "memory",
         .sweep = kind_names(by_cpu)});
  return w;
}

}  // namespace

std::vector<Workload> gpu_workloads(const Machine& machine) {
  std::vector<Workload> list;
  for (int gpu = 0; gpu < machine.gpus; ++gpu) {
    for (const bool by_cpu : {false, true}) {
      for (const auto& each : kOperations) list.push_back(workload(each.operation, gpu, by_cpu, machine));
    }
  }
  return list;
}

}  // namespace isthmus::microbench::stream
