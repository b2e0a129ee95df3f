// transfer/*: bandwidth from one memory to another, by every available method. One function measures all of them;
// ends.cpp lists them.

#include <algorithm>
#include <cmath>
#include <memory>

#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "microbench/axes.hpp"
#include "microbench/require.hpp"
#include "microbench/transfer/ends.hpp"
#include "microbench/transfer/family.hpp"
#include "microbench/transfer/limits.hpp"
#include "microbench/transfer/movement.hpp"

namespace isthmus::microbench::transfer {

namespace {

using namespace workload;

/// Returns the movements that a path stands for on a machine with `gpus` GPUs, each repeated `at_once` times.
std::vector<Leg> legs_of(const Path& path, int gpus, std::int64_t at_once) {
  const auto expand = [&](const End& end) {
    std::vector<End> ends{end};
    if (end.all_gpus()) {
      ends.clear();
      for (int g = 0; g < gpus; ++g) ends.push_back(gpu(g));
    }
    return ends;
  };
  std::vector<Leg> legs;
  for (const auto& from : expand(path.from)) {
    for (const auto& to : expand(path.to)) {
      const bool group = path.from.all_gpus() || path.to.all_gpus();
      if (group && from == to) continue;  // a copy within one GPU uses no link
      for (std::int64_t k = 0; k < at_once; ++k) {
        legs.push_back({from, to});
        if (path.duplex) legs.push_back({to, from});
      }
    }
  }
  return legs;
}

/// Returns the initiator of one leg. In duplex mode the backward leg of sm_read is a kernel that writes if it ends on
/// the host, so that it runs on the same GPU.
Initiator initiator_of(const Path& path, const Leg& leg) {
  if (path.initiator == Initiator::sm_read && !leg.to.on_gpu()) return Initiator::sm_write;
  return path.initiator;
}

/// Returns the number of kernels that run at the same time on the GPU whose kernel moves this leg, including that
/// kernel.
unsigned kernels_beside(const Path& path, const std::vector<Leg>& legs, const Leg& leg) {
  const auto runs_on = [&](const Leg& each) {
    const bool writes = initiator_of(path, each) == Initiator::sm_write;
    return writes ? each.from.index : each.to.index;
  };
  return static_cast<unsigned>(
      std::count_if(legs.begin(), legs.end(), [&](const Leg& each) { return runs_on(each) == runs_on(leg); }));
}

/// Axes that make sense for a path.
struct PathAxes {
  explicit PathAxes(const Path& path) {
    const auto either = [&](const auto& is) { return is(path.from) || is(path.to); };
    const auto by = [&](auto... initiators) { return ((path.initiator == initiators) || ...); };
    cache = either([](const End& end) { return end.kind != Kind::device; });
    const bool host = either([](const End& end) { return end.kind != Kind::device && !end.on_node(); });
    order = by(Initiator::sm_read, Initiator::sm_write);
    width = order || by(Initiator::pack);
    box = by(Initiator::ce_strided, Initiator::pack);
    pieces = by(Initiator::ce_batch, Initiator::prefetch_batch, Initiator::discard);
    touch = by(Initiator::fault);
    grid = width || touch;
    node = host || by(Initiator::ce_nopeer);
    pages = either([](const End& end) { return end.kind == Kind::pageable || end.kind == Kind::registered; });
    const bool on_host = !path.to.on_gpu() || (path.duplex && !path.from.on_gpu());
    threads = by(Initiator::cpu) || (touch && on_host);
    issuer = by(Initiator::ce, Initiator::ce_batch, Initiator::ce_strided) && !host && path.from != path.to;
    at_once = width || by(Initiator::ce, Initiator::ce_batch, Initiator::ce_strided);
  }
  bool width, grid, order, box, pieces, touch, node, cache, pages, threads, issuer, at_once;
};

Settings settings_of(const Case& c, const PathAxes& has) {
  Settings s;
  s.bytes = c.extent("bytes");
  s.seed = c.seed();
  if (has.node) {
    const auto node = static_cast<int>(c.integer("node"));
    require_node(node);
    s.host.numa_node = node >= 0 ? node : c.numa_node();
  }
  if (has.pages) s.host.pages = pages_of(c);
  if (has.width) s.geometry.width = static_cast<unsigned>(c.integer("width"));
  if (has.grid) {
    s.geometry.grid = static_cast<unsigned>(c.integer("grid"));
    s.geometry.threads = static_cast<unsigned>(c.extent("block"));
  }
  if (has.order) {
    s.geometry.order = c.choice("order") == "strided"   ? Order::strided
                       : c.choice("order") == "chunked" ? Order::chunked
                                                        : Order::contiguous;
    s.geometry.stride = c.extent("stride");
  }
  if (has.box) {
    s.row_bytes = c.extent("row");
    s.planes = c.extent("planes");
  }
  if (has.pieces) s.pieces = c.extent("pieces");
  if (has.threads) s.threads = static_cast<unsigned>(c.integer("threads"));
  if (has.touch)
    s.touch = c.choice("touch") == "write" ? Touch::write : c.choice("touch") == "page" ? Touch::page : Touch::whole;
  if (has.issuer) s.far_issues = c.choice("issuer") == "far";
  return s;
}

/// Returns the memory of all legs together. For several GPUs, device memory is the maximum over the GPUs.
EndBytes footprint_of(const Path& path, const std::vector<Leg>& legs, const Settings& s) {
  std::size_t host = 0;
  std::vector<std::size_t> devices(1);
  for (const auto& leg : legs) {
    const auto each = footprint(leg.from, leg.to, initiator_of(path, leg), s);
    host += each.host;
    for (const auto& end : {leg.from, leg.to}) {
      if (!end.on_gpu()) continue;
      devices.resize(std::max(devices.size(), static_cast<std::size_t>(end.index) + 1));
      devices[static_cast<std::size_t>(end.index)] += each.device;
      if (leg.from == leg.to) break;
    }
  }
  return {host, *std::max_element(devices.begin(), devices.end())};
}

std::string direction(const End& from, const End& to) {
  return std::string(from.on_gpu() ? "d" : "h") + "2" + (to.on_gpu() ? "d" : "h");
}

/// Metrics of one case, and their values for one sample.
class Readings {
 public:
  Readings(const Path& path, const std::vector<Leg>& legs, const std::vector<std::unique_ptr<Movement>>& movements,
           const std::string& timer) {
    std::vector<Bound> bounds;
    for (std::size_t i = 0; i < legs.size(); ++i) {
      bounds.push_back(limit_of(*movements[i], bound(legs[i].from, legs[i].to)));
      moved_.push_back(static_cast<double>(movements[i]->moved));
      all_ += moved_.back();
      needed_ += static_cast<double>(movements[i]->needed());
    }
    const auto of_rate = combined_bound(legs, bounds);
    auto of_time = of_rate;
    if (of_rate.value) of_time.value = all_ / *of_rate.value;
    const std::string way = legs.size() == 1 ? direction(legs[0].from, legs[0].to) : "";
    metrics_ = {time_metric("time", timer, of_time).moving(needed_, all_, way),
                rate_metric("rate", "B/s", timer, of_rate).moving(needed_, all_, way)};
    for (std::size_t i = 0; legs.size() > 1 && i < legs.size(); ++i) {
      const bool forward = i % 2 == 0;
      const std::string name =
          path.duplex && legs.size() == 2 ? (forward ? "forward_rate" : "backward_rate") : "rate_" + leg_name(legs, i);
      metrics_.push_back(
          rate_metric(name, "B/s", timer, bounds[i])
              .moving(static_cast<double>(movements[i]->needed()), moved_[i], direction(legs[i].from, legs[i].to)));
    }
  }

  const std::vector<Metric>& metrics() const { return metrics_; }
  std::vector<double> values(const LaneTimes& times) const {
    std::vector<double> values{times.all, all_ / times.all};
    for (std::size_t i = 0; times.lanes.size() > 1 && i < times.lanes.size(); ++i)
      values.push_back(moved_[i] / times.lanes[i]);
    return values;
  }

 private:
  static Bound limit_of(const Movement& movement, Bound link) {
    if (movement.crosses_link()) return link;
    return "discarded pages move without their bytes, so no link limits them";
  }

  /// Returns a name such as "gpu0_gpu1", with a number if several legs have the same ends.
  static std::string leg_name(const std::vector<Leg>& legs, std::size_t index) {
    const auto same = [&](const Leg& leg) { return leg.from == legs[index].from && leg.to == legs[index].to; };
    const auto first = std::count_if(legs.begin(), legs.begin() + static_cast<std::ptrdiff_t>(index), same);
    const bool several = std::count_if(legs.begin(), legs.end(), same) > 1;
    return legs[index].from.name() + "_" + legs[index].to.name() + (several ? "_" + std::to_string(first) : "");
  }

  std::vector<double> moved_;
  double all_ = 0, needed_ = 0;
  std::vector<Metric> metrics_;
};

void run(Case& c, const Path& path) {
  require_ends(path);
  const PathAxes has(path);
  const Settings settings = settings_of(c, has);
  const bool flushed = has.cache && c.choice("cache") == "flushed";
  const auto legs = legs_of(path, device::count(), has.at_once ? c.integer("at_once") : 1);
  const auto needed = footprint_of(path, legs, settings);
  c.needs(needed.host, needed.device);

  // The calling thread drives pageable copies, and copies between GPUs without peer access, so it runs on the memory's
  // node.
  const memory::ScopedThreadNode on_node(settings.host.numa_node);
  std::vector<std::unique_ptr<Movement>> movements;
  std::vector<Lane> lanes;
  for (const auto& leg : legs) {
    Settings own = settings;
    own.geometry.sharers = kernels_beside(path, legs, leg);
    movements.push_back(
        make_movement(leg.from, leg.to, initiator_of(path, leg), own, static_cast<unsigned>(movements.size())));
    lanes.push_back(movements.back()->lane());
  }
  for (const auto& movement : movements) {
    for (auto& sentence : movement->disagreements()) c.warn("placement_disagrees", std::move(sentence));
    if (const auto launched = movement->kernel()) c.kernel(launched->info, launched->shape);
  }

  Lanes at_once(c, std::move(lanes));
  const Readings readings(path, legs, movements, at_once.timer());
  bool could_flush = true;
  const auto prepare = [&] {
    for (const auto& movement : movements) {
      movement->reset();
      if (flushed) could_flush &= movement->flush();
    }
  };

  prepare();
  const auto cold = at_once.run();
  if (!could_flush)
    c.warn("caches_not_flushed", "programs cannot flush the caches of this CPU, so small copies may read from them");
  c.once(time_metric("first_time", at_once.timer()), cold.all);

  verify(c, movements);
  const bool repeats =
      std::all_of(movements.begin(), movements.end(), [](const auto& movement) { return movement->repeats(); });
  const int times = !repeats ? 1 : c.sampling().batch_for(at_once.timer(), c.sampling().largest_batch(), [&](int n) {
    prepare();
    const auto taken = at_once.run(n);
    return n * *std::min_element(taken.lanes.begin(), taken.lanes.end());
  });
  c.sampling().sample(readings.metrics(), [&] {
    prepare();
    return readings.values(read(c, at_once, times));
  });

  for (const auto& movement : movements) {
    const auto left = movement->left();
    if (!left) continue;
    c.report(share_metric("pages_moved", "none"), *left);
    if (movement->moves_pages() && *left < 0.99)
      c.warn("pages_stayed", std::to_string(static_cast<int>(*left * 100)) +
                                 "% of the pages left the host when the GPU accessed them: it reads the rest there");
    break;
  }
}

bool needs_gpu(const Path& path) {
  return path.from.kind == Kind::device || path.to.kind == Kind::device || path.initiator == Initiator::runtime;
}

std::vector<std::string> tags_of(const Path& path) {
  std::vector<std::string> tags{"transfer", std::string(name(path.initiator))};
  if (path.duplex) tags.emplace_back("duplex");
  if (path.from.on_gpu() && path.to.on_gpu() && path.from != path.to) tags.emplace_back("peer");
  if (path.from.on_node()) tags.emplace_back("numa");
  return tags;
}

void add_axes(Workload& w, const Path& path, const Machine& machine) {
  const PathAxes has(path);
  w.axis(bytes_axis("bytes", "bytes of one transfer", 256 * kMi)
             .with_default_sweep({4 * kKi, 64 * kKi, 1 * kMi, 32 * kMi, 1 * kGi})
             .with_size_sweep(powers(256, 8 * kGi)));
  if (has.node) w.axis(node_axis(machine));
  if (has.cache) w.axis(choice_axis("cache", "state of host memory before each sample", {"flushed", "warm"}));
  if (has.pages) w.axis(choice_axis("pages", "pages of pageable memory", {"standard", "small", "huge"}));
  if (has.at_once) w.axis(number_axis("at_once", "simultaneous transfers, each on its own stream", 1));
  if (has.width) w.axis(choice_axis("width", "bytes of one access of the copying kernel", {16, 8, 4}));
  if (has.grid) {
    w.axis(number_axis("grid", "blocks of the kernel; 0: chosen for the GPU", 0, 0));
    w.axis(number_axis("block", "threads per block", has.width ? 1024 : 512));
  }
  if (has.order) {
    w.axis(choice_axis("order", "order in which the kernel accesses elements", {"contiguous", "strided", "chunked"}));
    w.axis(bytes_axis("stride", "bytes between neighbours (strided) or of a thread's run (chunked)", 128, 4));
  }
  if (has.box) {
    w.axis(bytes_axis("row", "bytes of a row of the box; the pitch is twice that", 512, 8));
    w.axis(number_axis("planes", "planes of the box", 1));
  }
  if (has.pieces) w.axis(number_axis("pieces", "copies or ranges per batch", 64));
  if (has.threads) w.axis(number_axis("threads", "host threads that fault or copy; 0: all", 1, 0));
  if (has.touch)
    w.axis(choice_axis("touch", "access to each page: every word read, one word read, or one byte written",
                       {"whole", "page", "write"}));
  if (has.issuer)
    w.axis(choice_axis("issuer", "GPU whose stream runs the copy: the source's or the other", {"near", "far"}));
}

Preset paper_preset(const Path& path) {
  const PathAxes has(path);
  Preset preset{.name = "paper-commscope",
                .help =
                    "Comm|Scope: 256 x 256 threads, 4 bytes per access, one byte written per page, all sizes, five "
                    "processes of a second each",
                .settings = {},
                .sizes = {},
                .sweep_axis = "bytes",
                .sweep = powers(256, 8 * kGi),
                .modes = {},
                .processes = 5,
                .least_time = 1};
  if (has.grid) preset.settings = {{"grid", 256}, {"block", 256}};
  if (has.width) preset.settings.emplace_back("width", 4);
  if (has.touch) preset.settings.emplace_back("touch", "write");
  return preset;
}

/// Returns an estimate of the seconds of one transfer, from rates of a machine with PCIe 5, rounded down. It only
/// serves to predict how long a run takes.
double expected_seconds(const Path& path, double bytes) {
  double rate = 40e9;  // the host's link
  if (path.from.kind == Kind::pageable || path.to.kind == Kind::pageable) rate = 8e9;
  if (path.initiator == Initiator::fault) rate = 4e9;
  if (path.from.kind == Kind::device && path.to.kind == Kind::device)
    rate = path.initiator == Initiator::ce_nopeer ? 10e9 : path.initiator == Initiator::fault ? 4e9 : 200e9;
  return 50e-6 + bytes * (path.duplex ? 2 : 1) / rate;
}

Workload workload(const Path& path, const Machine& machine) {
  Workload w("transfer/" + path.name(), [path](Case& c) { run(c, path); });
  w.version(1)
      .summary(path.summary())
      .source("commscope-icpe2019, Table 1 and section 3")
      .tags(tags_of(path))
      .devices(path.gpus(machine))
      .stagings({})
      .metrics({"time", "rate"})
      .estimate(
          [path](const CaseSpec& spec) { return expected_seconds(path, static_cast<double>(spec.integer("bytes"))); })
      .sizes({"bytes"}, {1 * kMi, 16 * kMi, 64 * kMi, 512 * kMi, 4 * kGi})
      .preset(paper_preset(path));
  add_axes(w, path, machine);
  if (!needs_gpu(path)) w.cpu_only();
  return w;
}

}  // namespace

std::vector<Workload> bandwidth_workloads(const Machine& machine) {
  std::vector<Workload> list;
  for (const auto& path : paths(machine)) list.push_back(workload(path, machine));
  return list;
}

}  // namespace isthmus::microbench::transfer
