// latency/<from>-<to>/chase: time of one access. One thread follows a chain of addresses in random order, one on each
// line. Each access waits for the previous one, so the time of one access is the total time divided by their number.

#include <algorithm>
#include <climits>
#include <vector>

#include "device/api/peer_access.hpp"
#include "memory/host_cache.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "memory/processors.hpp"
#include "microbench/axes.hpp"
#include "microbench/chain.hpp"
#include "microbench/latency/follow.hpp"
#include "microbench/latency/routes.hpp"
#include "microbench/require.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::latency {

namespace {

using namespace workload;

/// Line size of NVIDIA's and AMD's second-level caches.
constexpr std::size_t kGpuLine = 128;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Shape of a chain, with its places and hops, as the axes request it.
struct Shape {
  Shape(const Case& c, std::size_t line_)
      : bytes(c.extent("bytes")),
        stride(c.extent("stride")),
        line(line_),
        slots(bytes / stride),
        hops(c.extent("hops")) {
    const auto cannot = [](const std::string& why) { return Skip(why, SkipKind::not_applicable); };
    if (stride % line != 0)
      throw cannot("places " + std::to_string(stride) + " bytes apart would share lines of " + std::to_string(line) +
                   " bytes: choose a multiple");
    if (bytes % stride != 0 || slots < 2)
      throw cannot("a chain needs at least two places and a size that is a multiple of " + std::to_string(stride) +
                   " bytes");
    if (slots - 1 > UINT_MAX || hops >= INT_MAX)
      throw cannot("a chain has at most 2^32 places, and a sample at most 2^31 accesses");
    if (hops % slots == 0) ++hops;  // otherwise every sample would end where it began, whether it moved or not
  }
  std::size_t bytes, stride, line, slots, hops;

  Places places(std::uint64_t seed) const { return {.stride = stride, .line = line, .seed = seed}; }
  /// Returns the number of hops before the first sample, after which the content of the caches is stationary: one full
  /// cycle, or enough hops to displace the earlier content of the caches.
  std::size_t warming() const { return std::min(slots, 4 * hops); }
};

/// Record of the positions that the chase reached and of the hops made so far. Recording is not timed.
class Trail {
 public:
  void note(std::size_t hops, std::uint64_t at) {
    walked_ += hops;
    ends_.emplace_back(walked_, at);
  }
  /// Returns the number of samples that did not end at the right place of the chain.
  double wrong(const Chain& chain, const Places& places, std::uint64_t base) const {
    return static_cast<double>(std::count_if(ends_.begin(), ends_.end(), [&](const auto& end) {
      return end.second != base + places.offset(chain.end(end.first));
    }));
  }

 private:
  std::size_t walked_ = 0;
  std::vector<std::pair<std::size_t, std::uint64_t>> ends_;
};

bool has_pages_axis(const From& from) {
  return from.kind == Kind::pageable || from.kind == Kind::registered;
}

void warn_all(Case& c, std::vector<std::string> disagreements) {
  for (auto& sentence : disagreements) c.warn("placement_disagrees", std::move(sentence));
}

/// Reports the share of the memory that is in huge pages, whatever was requested. Latencies of large chains depend on
/// it most.
void observe_huge_pages(Case& c, const std::byte* data, std::size_t bytes) {
  const auto huge = memory::huge_page_bytes(data);
  if (!huge) return;
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const double share = std::min(1.0, static_cast<double>(*huge) / static_cast<double>(whole));
  c.report(share_metric("huge_page_share", "event"), share);
  if (c.choice("pages") == "huge" && share < 1)
    c.warn("placement_disagrees",
           "only " + std::to_string(*huge) + " of " + std::to_string(whole) + " bytes of the memory are in huge pages");
}

// --- on the CPU --------------------------------------------------------------------------------------

struct Reading {
  int processor, memory_node;
};

/// Returns the processor that reads, and the NUMA node of the memory.
Reading reading_of(const Case& c, const Route& route) {
  const auto all = memory::usable_processors(-1);
  const auto processor_near = [&](int node) {
    return reading_processor(node >= 0 ? memory::usable_processors(node) : all, all);
  };
  if (route.from.on_node) {
    require_node(route.from.index);
    require_node(route.to.node);
    const auto there = memory::usable_processors(route.to.node);
    if (there.empty())
      throw Skip("NUMA node " + std::to_string(route.to.node) + " has no processor that this process may use",
                 SkipKind::not_applicable);
    return {there.front(), route.from.index};
  }
  const auto node = static_cast<int>(c.integer("node"));
  require_node(node);
  const int wanted = node >= 0 ? node : c.numa_node();
  auto processor = static_cast<int>(c.integer("processor"));
  if (processor >= 0 && std::find(all.begin(), all.end(), processor) == all.end())
    throw Skip("this process may not use processor " + std::to_string(processor));
  if (processor < 0) processor = processor_near(wanted);
  return {processor, wanted >= 0 ? wanted : memory::memory_node_of_processor(processor)};
}

void chase_on_cpu(Case& c, const Route& route) {
  const Shape shape(c, memory::host_line_bytes());
  if (!route.cpu_only()) {
    if (route.from.kind == Kind::device) require_gpu(route.from.index);
    require_kind(route.from.kind, Reader::cpu, c.device());
  }
  const auto [processor, node] = reading_of(c, route);
  const bool flushed = c.choice("cache") == "flushed";
  c.needs((on_device(route.from.kind) ? 0 : shape.bytes) + Chain::bytes_needed(shape.slots),
          on_device(route.from.kind) ? shape.bytes : 0);

  const Chain chain(shape.slots, c.seed());
  const Places places = shape.places(c.seed());
  memory::Block block;
  const memory::Pages pages = has_pages_axis(route.from) ? pages_of(c) : memory::Pages::standard;
  std::byte* data = nullptr;
  {
    const memory::ScopedThreadNode on_node(node);
    if (route.cpu_only()) {  // no driver is used, because there may be none
      block = memory::Block(Kind::pageable, shape.bytes, {.numa_node = node, .pages = pages});
      block.touch();
      warn_all(c, block.page_disagreements("the memory"));
    } else {
      std::optional<device::Selected> owner;
      if (on_device(route.from.kind)) owner.emplace(route.from.index);
      block = memory::Block(route.from.kind, shape.bytes, {.numa_node = node, .pages = pages});
      if (!on_device(route.from.kind)) block.touch();
      warn_all(c, block.disagreements("the memory"));
    }
    data = block.data();
    write_links(chain, places, data, true, reinterpret_cast<std::uint64_t>(data));
  }
  if (has_pages_axis(route.from)) observe_huge_pages(c, data, shape.bytes);

  const memory::ScopedThreadProcessor pinned(processor);
  if (!pinned.bound()) c.warn("not_pinned", "the thread that reads is not bound to a processor");
  if (pinned.bound()) c.report(amount_metric("processor", "1", Better::lower, "event"), processor);
  const auto base = reinterpret_cast<std::uint64_t>(data);
  const std::size_t hops = flushed ? std::min(shape.hops, shape.slots - 1) : shape.hops;
  Trail trail;
  std::uint64_t at = base + places.offset(0);
  const auto walk = [&](std::size_t far) {
    const double begin = now();
    at = follow(at, far);
    const double taken = now() - begin;
    trail.note(far, at);
    return taken;
  };
  walk(shape.warming());
  c.verify("each sample ends where the chain does", [&] { return trail.wrong(chain, places, base); }, 0);
  c.sampling().sample(time_metric("latency", "clock", kLatencyUnbounded), [&] {
    if (flushed && !memory::flush_host_caches(data, shape.bytes))
      throw Skip("programs cannot drop lines from this CPU's caches");
    c.sampling().batch(static_cast<int>(hops));
    return walk(hops) / static_cast<double>(hops);
  });
}

// --- on a GPU ----------------------------------------------------------------------------------------

/// Reports the share of managed pages that are on the host. Pages that moved to the GPU are no longer in the host's
/// page table.
void observe_pages_on_host(Case& c, const void* data, std::size_t bytes) {
  if (const auto pages = memory::present_pages(data, bytes))
    c.report(amount_metric("pages_on_host", "1", Better::lower, "event"),
             static_cast<double>(pages->present) / static_cast<double>(pages->all));
}

void chase_on_gpu(Case& c, const Route& route) {
  const int reader = route.to.gpu;
  const bool on_gpu = on_device(route.from.kind);
  const int owner = route.from.kind == Kind::device ? route.from.index : reader;
  require_gpu(reader);
  require_gpu(owner);
  const auto info = device::info(reader);
  require_kind(route.from.kind, Reader::gpu, info);
  const Shape shape(c, kGpuLine);
  memory::BlockOptions host{.numa_node = c.numa_node()};
  if (!on_gpu) {
    const auto node = static_cast<int>(c.integer("node"));
    require_node(node);
    if (node >= 0) host.numa_node = node;
  }
  if (has_pages_axis(route.from)) host.pages = pages_of(c);
  const std::size_t building = Chain::bytes_needed(shape.slots);
  const bool moves = is_managed(route.from.kind);
  c.needs(building + (on_gpu ? 0 : shape.bytes), on_gpu || moves ? shape.bytes : 0);

  const device::PeerAccess peer(owner, reader);
  const device::Selected on(owner);
  const memory::ScopedThreadNode on_node(host.numa_node);
  const Chain chain(shape.slots, c.seed());
  const Places places = shape.places(c.seed());
  memory::Block block(route.from.kind, shape.bytes, host);
  if (!on_gpu) block.touch();
  const auto base = reinterpret_cast<std::uint64_t>(block.device_data());
  write_links(chain, places, block.data(), !on_gpu, base);
  warn_all(c, block.disagreements("the memory"));

  const device::Selected on_reader(reader);
  const memory::Block state(Kind::device, 2 * sizeof(std::uint64_t));  // position of the chase, sum of a visit
  auto* at = reinterpret_cast<std::uint64_t*>(state.data());
  const std::uint64_t begin[2] = {base + places.offset(0), 0};
  device::copy(at, begin, sizeof begin);

  device::Stream stream;
  if (moves && info.concurrent_managed)
    device::prefetch(block.data(), shape.bytes, device::Location::gpu(reader), stream);
  queue_visit(stream, block.device_data(), shape.bytes, memory::page_bytes(), at + 1);
  queue_follow(stream, at, shape.warming());
  stream.synchronize();
  if (has_pages_axis(route.from)) observe_huge_pages(c, block.data(), shape.bytes);

  std::size_t length = 0;  // hops of the next walk
  Lane lane;
  lane.device = reader;
  lane.queue = [&](device::Stream& queue) { queue_follow(queue, at, length); };
  Lanes timed(c, {std::move(lane)});
  Trail trail;
  const auto note = [&](std::size_t far) {
    std::uint64_t end = 0;
    device::copy(&end, at, sizeof end);
    trail.note(far, end);
  };
  note(shape.warming());
  const auto walk = [&](std::size_t far) {
    length = far;
    const double taken = read(c, timed).all;
    note(far);
    return taken;
  };
  // When a kernel begins, the cache of its multiprocessor is empty. If the chain may fit into that cache, a walk of one
  // cycle, which fills it, is timed as well, and its time is subtracted.
  constexpr std::size_t kFirstLevelLines = 8192;
  const std::size_t around = shape.slots <= kFirstLevelLines ? shape.slots : 0;
  c.verify("each sample ends where the chain does", [&] { return trail.wrong(chain, places, base); }, 0);
  c.sampling().sample(time_metric("latency", timed.timer(), kLatencyUnbounded), [&] {
    const double filling = around > 0 ? walk(around) : 0;
    const double taken = walk(around + shape.hops);
    c.sampling().batch(static_cast<int>(shape.hops));
    if (taken <= filling && !c.emulated())
      c.sampling().invalidate("timer_backwards", "a longer chase took less time than a shorter one");
    return (taken > filling ? taken - filling : taken) / static_cast<double>(shape.hops);
  });
  if (moves && !info.integrated && !c.emulated()) observe_pages_on_host(c, block.data(), shape.bytes);
}

// --- registration ------------------------------------------------------------------------------------

/// Returns the estimated seconds of a sample, rounded up from measurements, to predict how long a run takes.
double seconds_of(const Route& route, const CaseSpec& spec) {
  const auto hops = static_cast<double>(spec.integer("hops"));
  const auto bytes = spec.integer("bytes");
  const bool emulated = device::backend() == device::Backend::emulator;
  if (route.to.reader == Reader::gpu) return hops * (emulated ? 20e-9 : on_device(route.from.kind) ? 0.7e-6 : 1.5e-6);
  if (route.from.kind == Kind::write_combined) return hops * 0.5e-6;
  return hops * (bytes <= kMi ? 5e-9 : bytes <= 16 * kMi ? 25e-9 : 150e-9);
}

Preset paper_preset() {
  return {.name = "paper-fig2",
          .help = "Figure 2: places 256 bytes apart, 1 KiB to 4 GiB by powers of two",
          .settings = {{"stride", 256}},
          .sizes = {},
          .sweep_axis = "bytes",
          .sweep = powers(kKi, 4 * kGi),
          .modes = {}};
}

std::vector<std::string> observed_of(const Route& route) {
  std::vector<std::string> names;
  if (has_pages_axis(route.from)) names.emplace_back("huge_page_share");
  if (route.to.reader == Reader::cpu) names.emplace_back("processor");
  if (route.to.reader == Reader::gpu && is_managed(route.from.kind)) names.emplace_back("pages_on_host");
  return names;
}

Workload workload(const Route& route, const Machine& machine) {
  const bool on_cpu = route.to.reader == Reader::cpu;
  Workload w("latency/" + route.name() + "/chase",
             [route, on_cpu](Case& c) { on_cpu ? chase_on_cpu(c, route) : chase_on_gpu(c, route); });
  w.version(1)
      .summary(route.summary())
      .source("mi300a-upm-2025, section III-1 and Figure 2")
      .stagings({})
      .tags({"latency", "chase", on_cpu ? "cpu" : "gpu"})
      .metrics({"latency"})
      .reported(observed_of(route))
      .estimate([route](const CaseSpec& spec) { return seconds_of(route, spec); });
  if (route.cpu_only()) w.cpu_only();
  if (const auto gpus = route.gpus(); !gpus.empty()) w.devices(gpus);

  const auto line = static_cast<std::int64_t>(on_cpu ? memory::host_line_bytes() : kGpuLine);
  // The paper uses a million hops. Over a link, where each takes more than a microsecond, there are fewer.
  const bool far = !on_cpu && (page_locked(route.from.kind) || route.from.kind == Kind::pageable);
  const std::int64_t hops = far ? 100'000 : 1'000'000;
  w.axis(bytes_axis("bytes", "bytes that the chain visits", 64 * kMi, 16)
             .with_default_sweep({16 * kKi, 256 * kKi, 4 * kMi, 64 * kMi, kGi})
             .with_size_sweep(powers(kKi, 4 * kGi)))
      .axis(bytes_axis("stride", "bytes between neighbouring places of the chain; 4 KiB: one place per page", line, 8)
                .with_all_values({line, 4 * kKi}))
      .axis(number_axis("hops", "dependent accesses in a sample", hops));
  if (on_cpu)
    w.axis(choice_axis("cache", "the chain before each sample: continued, or dropped from the caches",
                       {"warm", "flushed"}));
  if (has_pages_axis(route.from))
    w.axis(choice_axis("pages", "pages of the memory: the system's default, base pages, or transparent huge pages",
                       {"standard", "small", "huge"}));
  if (on_cpu && !route.from.on_node)
    w.axis(number_axis("processor", "logical processor that reads; -1: the first one near the memory", -1, -1));
  if (!on_device(route.from.kind) && !route.from.on_node) {
    w.axis(node_axis(
        machine, on_cpu ? "NUMA node of the memory; -1: the reader's" : "NUMA node of the memory; -1: the GPU's own"));
  } else if (on_cpu && !route.from.on_node) {
    w.axis(number_axis("node", "NUMA node of the thread that reads; -1: the GPU's own", -1, -1));
  }
  w.size("tiny", {{"bytes", 64 * kKi}, {"hops", 10'000}})
      .size("small", {{"bytes", 64 * kMi}, {"hops", hops}})
      .preset(paper_preset());
  return w;
}

std::vector<Workload> make(const Machine& machine) {
  std::vector<Workload> list;
  for (const auto& route : routes(machine)) list.push_back(workload(route, machine));
  return list;
}

const Family family("latency/", make);

}  // namespace

}  // namespace isthmus::microbench::latency
