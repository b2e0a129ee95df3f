// fault/cpu/<event>: page faults of host threads on host pages.

#include <fmt/format.h>

#include <algorithm>

#include "memory/parallel.hpp"
#include "microbench/axes.hpp"
#include "microbench/fault_cost/family.hpp"
#include "microbench/fault_cost/page_workers.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench::fault_cost {

namespace {

using namespace workload;

/// Minimum number of separately timed touches from which a percentile is computed.
constexpr std::size_t kSingles = 1000, kSinglesOfDisk = 200;
/// Number of touches per sample of the rate, if fewer pages are touched at once.
constexpr std::size_t kPaced = 4096, kPacedOfDisk = 256;
/// Memory limit of such a sample, in bytes, because allocating and deallocating takes most of the time.
constexpr std::size_t kPacedBytes = std::size_t{256} << 20;

memory::Pages pages_of(const Case& c, Event event) {
  if (!facts(event).huge) return memory::Pages::small;
  return microbench::pages_of(c);
}

/// Touches the region once. Throws Skip if this machine cannot cause the event.
void try_once(Event event, memory::Pages pages, FaultingRegion& region, PageWorkers& workers) {
  region.renew();
  const Pass pass = workers.touch(region);
  if (pages == memory::Pages::huge) {
    const auto huge = region.huge_bytes();
    if (!huge) throw Skip("the kernel does not report which memory is in huge pages");
    if (*huge < region.bytes())
      throw Skip(
          fmt::format("the kernel allocated {} of {} bytes in huge pages (see /sys/kernel/mm/transparent_hugepage)",
                      *huge, region.bytes()));
  }
  if (event == Event::file && pass.faults.minor < static_cast<long>(region.touches()))
    throw Skip(
        fmt::format("the kernel maps more than {} bytes of a file per fault, so touches at this distance cause fewer "
                    "faults ({} of {})",
                    region.stride(), pass.faults.minor, region.touches()));
  if (event == Event::file_major && pass.faults.major < static_cast<long>(region.touches()) &&
      pass.faults.minor + pass.faults.major >= static_cast<long>(region.touches()))
    throw Skip(
        fmt::format("the kernel counted {} of {} reads of evicted pages as major faults, so the others came "
                    "from memory",
                    pass.faults.major, region.touches()));
}

/// Arguments that sample_rounds() and sample_singles() share.
struct Faults {
  Case& c;
  Event event;
  std::size_t touches;
  FaultingRegion& region;
  PageWorkers& workers;
  Account& account;

  bool disk() const { return event == Event::file_major; }
  void check_disturbance() const {
    if (account.disturbed()) c.sampling().invalidate("other_faults", "pages other than the touched ones faulted");
  }
};

/// Seconds of a loop that touches all pages, and of the same loop again, when the pages are present.
struct Both {
  double faulting = 0, present = 0;
};
Both touch_rounds(const Faults& f, int rounds) {
  Both all;
  for (int i = 0; i < rounds; ++i) {
    f.region.renew();
    f.account.before(f.region);
    const Pass faulting = f.workers.touch(f.region);
    f.account.after(f.region, faulting);
    Pass present;
    for (const bool first : {true, false}) {  // the faster of two, because a pause would dominate such a short loop
      const Pass again = f.workers.touch(f.region);
      f.account.present(again);
      if (first || again.seconds < present.seconds) present = again;
    }
    all.faulting += faulting.seconds;
    all.present += present.seconds;
  }
  f.account.size(f.region);
  return all;
}

void sample_rounds(const Faults& f) {
  const auto most =
      static_cast<int>(std::max<std::size_t>(1, std::min((f.disk() ? kPacedOfDisk : kPaced) / f.touches,
                                                         kPacedBytes / std::max<std::size_t>(1, f.region.bytes()))));
  const int rounds = f.c.sampling().batch_for("clock", most, [&](int n) { return touch_rounds(f, n).present; });
  f.c.sampling().sample(
      {time_metric("time", "clock", kUnbounded), rate_metric("rate", "1/s", "clock", kUnbounded),
       time_metric("time_faulting", "clock", kUnbounded), time_metric("time_present", "clock", kUnbounded),
       count_metric("faults_per_touch", "1", "exactly one fault per touch is requested")},
      [&] {
        const Both seconds = touch_rounds(f, rounds);
        const double faults = static_cast<double>(f.touches) * rounds;
        f.c.sampling().batch(static_cast<int>(std::min(faults, 1e9)));
        f.check_disturbance();
        const double net = seconds.faulting - seconds.present;
        if (!(net > 0)) f.c.sampling().invalidate("below_baseline", "touching present pages took longer than faulting");
        return std::vector{net / faults, net > 0 ? faults / net : 0, seconds.faulting / faults,
                           seconds.present / faults, f.account.faults_per_touch()};
      });
}

/// Samples each touch separately.
void sample_singles(const Faults& f) {
  const std::size_t singles = std::max(f.disk() ? kSinglesOfDisk : kSingles, f.touches);
  const std::size_t rounds = (singles + f.touches - 1) / f.touches;
  std::vector<double> faulting(rounds * f.touches), present(faulting.size());
  std::vector<Metric> metrics;
  for (auto& name : percentile_names()) metrics.push_back(time_metric(std::move(name), "clock", kUnbounded));
  f.c.sampling().limit(10, 1);  // each sample has percentiles of thousands of touches, so more samples add little
  f.c.sampling().sample(std::move(metrics), [&] {
    for (std::size_t i = 0; i < rounds; ++i) {
      const auto of_round = [&](std::vector<double>& all) { return std::span(all).subspan(i * f.touches, f.touches); };
      f.region.renew();
      f.account.before(f.region);
      f.account.after(f.region, f.workers.touch_timed(f.region, of_round(faulting)));
      f.account.present(f.workers.touch_timed(f.region, of_round(present)));
    }
    f.account.size(f.region);
    f.c.sampling().batch(
        static_cast<int>(std::min<std::size_t>(faulting.size(), 1'000'000'000)));  // touches for each percentile
    f.check_disturbance();
    return percentiles(faulting, present);
  });
}

void run(Case& c, Event event) {
  const std::size_t touches = c.extent("at_once");
  const auto threads = c.integer("threads") > 0 ? static_cast<unsigned>(c.integer("threads")) : memory::host_threads();
  const memory::Pages pages = pages_of(c, event);
  const auto asked = static_cast<int>(c.integer("node"));
  require_node(asked);
  const int node = asked >= 0 ? asked : c.numa_node();
  if (threads > touches)
    throw Skip(fmt::format("{} threads cannot share {} page{}", threads, touches, touches == 1 ? "" : "s"),
               SkipKind::not_applicable);
  c.needs(FaultingRegion::footprint(event, touches, pages), 0);

  FaultingRegion region(event, touches, pages);
  PageWorkers workers(event, threads, node);
  try_once(event, pages, region, workers);
  if (auto elsewhere = memory::node_disagreement("the memory", region.data(), region.bytes(), asked))
    c.warn("placement_disagrees", std::move(*elsewhere));

  Account account(event);
  c.verify(
      "each touch is one fault, and each page is present and contains its word",
      [&] {
        if (account.wrong() > 0) c.warn("faults_wrong", account.reason());
        return static_cast<double>(account.wrong());
      },
      0);
  const Faults faults{c, event, touches, region, workers, account};
  sample_rounds(faults);
  sample_singles(faults);
}

Workload workload(const EventFacts& event, const Machine& machine) {
  Workload w(fmt::format("fault/cpu/{}", event.name), [kind = event.event](Case& c) { run(c, kind); });
  const bool disk = event.event == Event::file_major;
  const bool file = disk || event.event == Event::file;
  std::vector<std::string> metrics{"time", "rate", "time_faulting", "time_present", "faults_per_touch"};
  for (auto& name : percentile_names()) metrics.push_back(std::move(name));
  w.version(1)
      .summary(fmt::format("page fault of the CPU: {}", event.words))
      .source("mi300a-upm-2025, section III-A 6 and Figures 7 and 8")
      .tags({"fault", "cpu", std::string(event.name)})
      .stagings({})
      .cpu_only()
      .metrics(std::move(metrics))
      .estimate([disk](const CaseSpec& spec) {
        const auto touches = static_cast<double>(spec.integer("at_once"));
        return disk ? 100e-6 * std::max(touches, 256.0) : 3e-6 * std::max(touches, 4096.0);
      });
  w.axis(number_axis("at_once", "pages touched in one round, by all threads together", disk ? 64 : 1024)
             .with_default_sweep(disk ? std::vector<AxisValue>{1, 256} : std::vector<AxisValue>{1, 64, 4 * kKi})
             .with_size_sweep(powers(1, disk   ? 4096
                                        : file ? 16 * kKi
                                               : 4 * kMi)))
      .axis(threads_axis("host threads that touch them; 0: all"));
  if (event.huge) w.axis(choice_axis("pages", "size of the pages", {"small", "huge"}).with_default_sweep_of_all());
  w.axis(node_axis(machine, "NUMA node of the pages and of the threads; -1: that of the run"));
  AxisSettings tiny{{"at_once", disk ? 16 : 256}};
  if (event.huge) tiny.emplace_back("pages", "small");  // the same number of huge pages would not be tiny
  w.size("tiny", tiny).size("small", {{"at_once", disk ? 64 : 4096}});
  const auto all = memory::host_threads();
  AxisSettings few{{"threads", 1}}, many{{"threads", all}};
  if (event.huge) {
    few.emplace_back("pages", "small");
    many.emplace_back("pages", "small");
  }
  const auto preset = [&](const char* name, const char* help, AxisSettings settings, std::vector<AxisValue> sweep) {
    w.preset({.name = name,
              .help = help,
              .settings = std::move(settings),
              .sweep_axis = "at_once",
              .sweep = std::move(sweep)});
  };
  if (!file) {
    preset("paper-fig7-1cpu", "Figure 7, 1CPU: one thread, 1 to 4 Mi pages at once", few, powers(1, 4 * kMi));
    std::vector<AxisValue> wide;
    for (std::int64_t pages = 1; pages <= 4 * kMi; pages *= 2) {
      if (pages >= std::int64_t{all}) wide.emplace_back(pages);
    }
    preset("paper-fig7-cpus", "Figure 7, 12CPU: all threads of this machine", many, std::move(wide));
    preset("paper-fig8", "Figure 8: single pages", few, {1});
  }
  return w;
}

}  // namespace

std::vector<Workload> cpu_workloads(const Machine& machine) {
  std::vector<Workload> list;
  for (const auto& event : events()) list.push_back(workload(event, machine));
  return list;
}

}  // namespace isthmus::microbench::fault_cost
