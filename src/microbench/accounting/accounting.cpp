// accounting/<kind>/<cpu|gpuN>: effect of an allocation on each counter of memory in use, after the call that allocates
// it and after every page of it was touched.

#include <cmath>
#include <string>
#include <vector>

#include "memory/host_memory.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "memory/processors.hpp"
#include "microbench/accounting/counters.hpp"
#include "microbench/accounting/touch.hpp"
#include "microbench/axes.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench::accounting {

namespace {

using namespace workload;

constexpr int kSamples = 3;
constexpr std::size_t kMostBallast = std::size_t{1} << 30;

/// Memory that stays allocated while other memory is counted. A processor seems to keep a gibibyte or more of freed
/// pages for itself, and an allocation from these pages changes neither MemFree nor the numbers that libnuma reports.
/// So the ballast uses these pages up first.
class Ballast {
 public:
  Ballast(std::size_t most, memory::BlockOptions options) : most_(most), options_(options) {}
  /// Allocates and touches memory until that reduces MemFree. Returns false if it never does.
  bool take() {
    for (;;) {
      const auto before = memory::proc_bytes("/proc/meminfo", "MemFree");
      if (!before) return true;  // this machine has no counter that could mislead
      if (held_.size() * kPiece >= most_) return false;
      held_.emplace_back(Kind::pageable, kPiece, options_);
      held_.back().touch();
      const auto after = memory::proc_bytes("/proc/meminfo", "MemFree");
      if (!after || *before >= *after + kPiece / 10 * 9) return true;
    }
  }
  std::size_t bytes() const { return held_.size() * kPiece; }

 private:
  static constexpr std::size_t kPiece = std::size_t{32} << 20;
  std::size_t most_;
  memory::BlockOptions options_;
  std::vector<memory::Block> held_;
};

/// Allocation whose effect is measured, and the touching of its pages.
class Subject {
 public:
  Subject(Kind kind, std::size_t bytes, memory::BlockOptions options, int device) : options_(options), device_(device) {
    std::optional<device::Selected> on;
    if (memory::facts(kind).asks_device) on.emplace(device);
    block_ = memory::Block(kind, bytes, options);
    if (kind == Kind::pageable || kind == Kind::registered) memory::separate_mapping(block_.data(), block_.size());
  }
  std::byte* data() const { return block_.data(); }
  std::size_t size() const { return block_.size(); }
  std::vector<std::string> disagreements() const {
    const bool asks = memory::facts(block_.kind()).asks_device;  // otherwise there may be no driver
    return asks ? block_.disagreements("the memory") : block_.page_disagreements("the memory");
  }
  void touch(bool by_gpu) {
    if (by_gpu) {
      const device::Selected on(device_);
      device::Stream stream;
      queue_touch_on_gpu(stream, block_.device_data(), size(), memory::page_bytes());
      stream.synchronize();
    } else {
      const memory::ScopedMemoryNode on_node(options_.numa_node);
      touch_on_cpu(data(), size(), memory::page_bytes());
    }
  }
  std::size_t wrong() const { return wrong_pages(data(), size(), memory::page_bytes(), !on_device(block_.kind())); }

 private:
  memory::BlockOptions options_;
  int device_;
  memory::Block block_;
};

void account(Case& c, Kind kind, int gpu) {
  const std::size_t bytes = c.extent("bytes"), page = memory::page_bytes();
  if (bytes % page != 0)
    throw Skip(std::to_string(bytes) + " bytes are not a multiple of the page size, " + std::to_string(page) + " bytes",
               SkipKind::not_applicable);
  const bool by_gpu = gpu >= 0 && c.choice("touch") == "gpu";
  if (gpu >= 0) {
    require_gpu(gpu);
    require_kind(kind, by_gpu ? Reader::gpu : Reader::cpu, device::info(gpu));
  }
  memory::BlockOptions options{.numa_node = c.numa_node()};
  if (!on_device(kind)) {
    const auto node = static_cast<int>(c.integer("node"));
    require_node(node);
    if (node >= 0) options.numa_node = node;
  }
  if (kind == Kind::pageable || kind == Kind::registered) options.pages = pages_of(c);
  const bool either = is_managed(kind);
  // Memory that a sample deallocates joins the processor's own pages before the next sample.
  const std::size_t most_ballast = kSamples * bytes + kMostBallast;
  c.needs((on_device(kind) ? 0 : bytes) + most_ballast, on_device(kind) || either ? bytes : 0);

  // Memory is by default allocated near the thread that touches it; therefore the thread is bound to a processor.
  const memory::ScopedThreadNode on_node(options.numa_node);
  const auto here = memory::usable_processors(options.numa_node);
  const int processor = here.empty() ? memory::usable_processors(-1).front() : here.front();
  const memory::ScopedThreadProcessor on_processor(processor);
  const int node = options.numa_node >= 0 ? options.numa_node : memory::memory_node_of_processor(processor);

  const Watched nothing{.node = node, .device = gpu};
  std::vector<Metric> metrics;
  std::vector<std::size_t> reported;  // counters that this machine has
  const auto first = read_all(nothing);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto& counter = counters()[i];
    if (!first[i] && counter.everywhere && (gpu >= 0 || !counter.of_device))
      throw std::runtime_error(
          std::string(counter.words) +
          " cannot be read, although every machine has it: check whether this process may read it");
    if (!first[i]) continue;
    reported.push_back(i);
    for (const char* when : {"_allocated", "_touched"})
      metrics.push_back(
          amount_metric(std::string(counter.name) + when, "1", std::nullopt, "none", "a counter may report any value"));
  }
  std::size_t wrong = 0;
  std::vector<std::string> disagreements;
  Ballast ballast(most_ballast, {.numa_node = node, .pages = options.pages});
  bool counted = true;
  c.sampling().limit(kSamples, 0);
  c.verify("every page contains what was written", [&] { return static_cast<double>(wrong); }, 0);
  c.sampling().sample(std::move(metrics), [&] {
    if (!c.emulated()) counted = ballast.take();
    const auto before = read_all(nothing);
    Subject subject(kind, bytes, options, gpu);
    const Watched watched{.begin = subject.data(), .bytes = bytes, .node = node, .device = gpu};
    const auto allocated = growth(before, read_all(watched));
    subject.touch(by_gpu);
    const auto touched = growth(before, read_all(watched));
    wrong += subject.wrong();
    disagreements = subject.disagreements();
    std::vector<double> shares;
    for (const auto i : reported) {
      if (!allocated[i] || !touched[i])
        throw std::runtime_error(std::string(counters()[i].words) + " could be read before, but not any more");
      shares.push_back(*allocated[i] / static_cast<double>(bytes));
      shares.push_back(*touched[i] / static_cast<double>(bytes));
    }
    return shares;
  });
  for (auto& sentence : disagreements) c.warn("placement_disagrees", std::move(sentence));
  c.report(amount_metric("ballast", "B", std::nullopt, "event"), static_cast<double>(ballast.bytes()));
  if (!counted)
    c.warn("counters_lag",
           "the processor kept free pages in its own list, or others freed memory meanwhile, so free memory of meminfo "
           "and libnuma may not show the allocation");
}

Workload workload(Kind kind, int gpu, const Machine& machine) {
  const std::string workers = gpu < 0 ? "cpu" : "gpu" + std::to_string(gpu);
  const std::string memory(name(kind));
  std::vector<std::string> metrics{"ballast"}, observed;
  for (const auto& counter : counters()) {
    if (counter.of_device && gpu < 0) continue;
    for (const char* when : {"_allocated", "_touched"})
      (counter.everywhere ? metrics : observed).push_back(std::string(counter.name) + when);
  }
  Workload w("accounting/" + memory + "/" + workers, [kind, gpu](Case& c) { account(c, kind, gpu); });
  w.version(1)
      .summary("how counters of used memory report " + memory + " memory" + (gpu < 0 ? "" : " allocated by " + workers))
      .source("mi300a-upm-2025, section III-B")
      .stagings({})
      .tags({"accounting", gpu < 0 ? "cpu" : "gpu"})
      .metrics(std::move(metrics))
      .reported(std::move(observed))
      .estimate([](const CaseSpec& spec) { return 0.01 + 1e-9 * static_cast<double>(spec.integer("bytes")); });
  if (gpu < 0) {
    w.cpu_only();
  } else {
    w.devices({gpu});
  }
  w.axis(bytes_axis("bytes", "bytes of the allocation; choose many, because others also use memory", 256 * kMi, kMi));
  if (gpu >= 0) {
    auto touch = choice_axis("touch", "who writes the pages", {"gpu", "cpu"});
    if (!on_device(kind)) touch.default_sweep = touch.choices;
    w.axis(std::move(touch));
  }
  if (kind == Kind::pageable || kind == Kind::registered)
    w.axis(choice_axis("pages", "pages of the memory: the system's default, base pages, or transparent huge pages",
                       {"standard", "small", "huge"}));
  if (!on_device(kind)) w.axis(node_axis(machine, "NUMA node of the memory; -1: that of the allocating thread"));
  w.sizes({"bytes"}, {16 * kMi, 256 * kMi, kGi});
  return w;
}

std::vector<Workload> make(const Machine& machine) {
  std::vector<Workload> list{workload(Kind::pageable, -1, machine)};
  for (int gpu = 0; gpu < machine.gpus; ++gpu) {
    for (const auto kind : axis_kinds()) list.push_back(workload(kind, gpu, machine));
  }
  return list;
}

const Family family("accounting/", make);

}  // namespace

}  // namespace isthmus::microbench::accounting
