// fault/gpu<N>/<event>: page faults of a GPU on pages that the CPU can access as well.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "memory/numa_nodes.hpp"
#include "memory/placement.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/axes.hpp"
#include "microbench/fault_cost/family.hpp"
#include "microbench/fault_cost/faulting_region.hpp"
#include "microbench/fault_cost/kernels.hpp"
#include "microbench/require.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::fault_cost {

namespace {

using namespace workload;

constexpr std::size_t kWord = sizeof(std::uint64_t);
/// Distance in bytes between single faults: the most that drivers fetch at once, so that a fault does not also fetch
/// the next page.
constexpr std::size_t kFarApart = std::size_t{2} << 20;

/// Event that occurs when the GPU touches the pages. Events of a GPU that shares the CPU's memory and those of a GPU
/// with separate memory are different and never compared.
struct GpuEvent {
  std::string_view name, words;
  bool touched;   ///< the CPU touches the pages first
  bool timed;     ///< the CPU's touches are part of the cost
  bool migrates;  ///< pages migrate to the GPU's own memory
};
constexpr std::array<GpuEvent, 5> kGpuEvents{{
    {"major", "the GPU touches untouched pages", false, false, false},
    {"minor", "the GPU maps pages of the memory it shares with the CPU, which has touched them", true, false, false},
    {"migration", "pages touched by the CPU migrate to the GPU's own memory", true, false, true},
    {"prefaulted-minor", "threads of the CPU touch the pages first, then the GPU maps them", true, true, false},
    {"prefaulted-migration", "threads of the CPU touch the pages first, then they migrate to the GPU's own memory",
     true, true, true},
}};

/// Index, within a page, of the word that each accessor writes.
enum Slot : std::size_t { by_cpu, by_gpu, by_gpu_again };

/// Memory that both CPU and GPU can access, and that is untouched when it is allocated.
class SharedMemory {
 public:
  SharedMemory(bool managed, std::size_t touches, std::size_t apart, memory::Pages pages, int numa_node)
      // The block has at least 1 MiB, because malloc would serve smaller blocks from used pages.
      : touches_(touches),
        apart_(apart),
        block_(managed ? memory::Kind::managed : memory::Kind::pageable,
               std::max(touches_ * apart_, std::size_t{1} << 20), {.numa_node = numa_node, .pages = pages}) {}

  std::size_t touches() const { return touches_; }
  std::uint64_t* word(Slot slot, std::size_t index) const {
    return reinterpret_cast<std::uint64_t*>(block_.data() + offset_of(index, apart_)) + slot;
  }
  /// Returns the content of the word. The address is calculated here rather than by word(), which the code that touches
  /// uses, so that a wrong address there is noticed.
  std::uint64_t found(Slot slot, std::size_t index) const {
    std::uint64_t value = 0;
    std::memcpy(&value, block_.data() + index * apart_ + std::size_t{slot} * kWord, kWord);
    return value;
  }
  std::size_t step() const { return offset_of(1, apart_) / kWord; }

  /// Returns the number of touched pages in the CPU's page table; nullopt if unknown, as for emulated managed memory,
  /// which is filled with poison.
  std::optional<std::size_t> present() const {
    if (block_.kind() == memory::Kind::managed && device::backend() == device::Backend::emulator) return std::nullopt;
    const std::size_t page = memory::page_bytes();
    if (apart_ == page) {
      const auto pages = memory::present_pages(block_.data(), touches_ * page);
      return pages ? std::optional(pages->present) : std::nullopt;
    }
    std::size_t present = 0;  // drivers may fetch neighbours, which are not counted
    for (std::size_t i = 0; i < touches_; ++i) {
      const auto page_of_touch = memory::present_pages(word(by_cpu, i), kWord);
      if (!page_of_touch) return std::nullopt;
      present += page_of_touch->present;
    }
    return present;
  }

 private:
  std::size_t touches_, apart_;
  memory::Block block_;
};

/// Rounds in which fresh pages are touched, and a record of the errors found.
class Rounds {
 public:
  Rounds(Case& c, const GpuEvent& event, int gpu, bool managed, memory::Pages pages, int numa_node, unsigned threads)
      : case_(c), event_(event), gpu_(gpu), managed_(managed), pages_(pages), numa_node_(numa_node) {
    if (event.touched) pool_.emplace(threads, numa_node);
    Lane lane;
    lane.device = gpu;
    lane.queue = [this](device::Stream& stream) {
      queue_stamps(stream, memory_->word(slot_, first_), memory_->step(), count_, stamp(slot_, first_));
    };
    lanes_.emplace(c, std::vector{std::move(lane)});
  }

  const char* timer() const { return lanes_->timer(); }

  /// Allocates new pages and, if the event requires it, touches them on the CPU. Returns the seconds of these touches.
  double renew(std::size_t touches, std::size_t apart) {
    memory_.emplace(managed_, touches, apart, pages_, numa_node_);
    if (const auto there = memory_->present(); there && *there > 0)
      note(fmt::format("{} pages were present before they were touched", *there));
    return pool_ ? touch_by_cpu() : 0;
  }

  /// Returns the seconds of the kernel that touches pages `first` to `first` + `count`. `sampled`: called within the
  /// body of a sample.
  double touch(Slot slot, std::size_t first, std::size_t count, bool sampled) {
    slot_ = slot;
    first_ = first;
    count_ = count;
    const auto taken = sampled ? read(case_, *lanes_) : lanes_->run();
    if (taken.invalid && !sampled) case_.warn("latch_timeout", "a latch timed out before a single fault was queued");
    if (slot == by_gpu) settle();
    return taken.all;
  }

  /// Checks that every page contains what each side wrote.
  void check() {
    ++checked_;
    std::size_t lost = 0;
    for (std::size_t i = 0; i < memory_->touches(); ++i) {
      for (const auto slot : {by_cpu, by_gpu, by_gpu_again}) {
        if (slot == by_cpu && !event_.touched) continue;
        lost += memory_->found(slot, i) == stamp(slot, i) ? 0 : 1;
      }
    }
    if (lost > 0) note(fmt::format("{} words of {} pages were not written", lost, memory_->touches()));
  }

  std::size_t checked() const { return checked_; }
  std::size_t wrong() const { return wrong_; }
  const std::string& reason() const { return reason_; }
  /// Returns the share of the pages that left the CPU's page table for the GPU; nullopt if unknown.
  std::optional<double> moved() const { return moved_; }

 private:
  static std::uint64_t stamp(Slot slot, std::size_t index) { return stamp_of((std::uint64_t{slot} + 1) << 48, index); }

  void note(std::string reason) {
    if (wrong_++ == 0) reason_ = std::move(reason);
  }

  double touch_by_cpu() {
    struct alignas(128) Reading {
      double begin = 0, end = 0;
    };
    std::vector<Reading> readings(pool_->size());
    pool_->run([&](unsigned i) {
      const memory::ScopedMemoryNode on_node(numa_node_);
      const memory::Part part = memory::part_of(memory_->touches(), pool_->size(), i);
      readings[i].begin = now();
      for (std::size_t at = part.first; at < part.last; ++at)
        *static_cast<volatile std::uint64_t*>(memory_->word(by_cpu, at)) = stamp(by_cpu, at);
      readings[i].end = now();
    });
    double begin = readings.front().begin, end = readings.front().end;
    for (const auto& reading : readings) {
      begin = std::min(begin, reading.begin);
      end = std::max(end, reading.end);
    }
    if (const auto there = memory_->present(); there && *there < memory_->touches())
      note(fmt::format("only {} of {} pages were present after the CPU had touched them", *there, memory_->touches()));
    return end - begin;
  }

  /// Checks, after the GPU's first touch of all pages, that the pages migrated or stayed, as the event requires.
  void settle() {
    if (!event_.touched || first_ + count_ < memory_->touches()) return;
    const auto there = memory_->present();
    if (!there) return;
    const double stayed = static_cast<double>(*there) / static_cast<double>(memory_->touches());
    if (event_.migrates) {
      if (stayed >= 1)
        throw Skip(fmt::format("gpu{} accessed the pages where they were: none migrated to its own memory", gpu_));
      moved_ = 1 - stayed;
    } else if (stayed < 1) {
      note(fmt::format("{:.0f}% of the pages left the memory that both sides share", 100 * (1 - stayed)));
    }
  }

  Case& case_;
  const GpuEvent& event_;
  int gpu_;
  bool managed_;
  memory::Pages pages_;
  int numa_node_;
  std::optional<memory::ThreadPool> pool_;
  std::optional<SharedMemory> memory_;
  std::optional<Lanes> lanes_;
  Slot slot_ = by_gpu;
  std::size_t first_ = 0, count_ = 0;
  std::size_t checked_ = 0, wrong_ = 0;
  std::string reason_;
  std::optional<double> moved_;
};

/// Throws Skip if the event cannot occur on this GPU. The reason names the event that occurs instead.
void require_event(const GpuEvent& event, const device::DeviceInfo& info, bool managed) {
  const auto who = fmt::format("{} ({})", info.name, info.arch);
  require_kind(managed ? Kind::managed : Kind::pageable, Reader::gpu, info);
  if (managed && !info.concurrent_managed)
    throw Skip(who + " cannot use managed memory at the same time as the CPU, so it does not fault on it");
  const auto other = [&](std::string_view with, std::string_view without) {
    std::string name(event.name);
    name.replace(name.find(without), without.size(), with);
    return fmt::format("fault/gpu{}/{}", info.index, name);
  };
  if (event.touched && event.migrates && info.integrated)
    throw Skip(who + " shares the CPU's memory, so nothing migrates; see " + other("minor", "migration"),
               SkipKind::not_applicable);
  if (event.touched && !event.migrates && !info.integrated)
    throw Skip(who + " has its own memory, so pages touched by the CPU migrate; see " + other("migration", "minor"),
               SkipKind::not_applicable);
}

void run(Case& c, const GpuEvent& event, int gpu) {
  require_gpu(gpu);
  const bool managed = kind_of(c) == Kind::managed;
  const auto pages = pages_of(c);
  const std::size_t touches = c.extent("at_once"), singles = c.extent("singles");
  const bool huge = pages == memory::Pages::huge;
  const std::size_t page = huge ? memory::huge_page_size() : memory::page_bytes();
  const std::size_t apart = c.integer("apart") == 0 ? page : c.extent("apart");
  const auto info = device::info(gpu);
  if (managed && huge) throw Skip("the runtime chooses the pages of managed memory", SkipKind::not_applicable);
  if (apart % page != 0)
    throw Skip(fmt::format("apart={} is not a multiple of the page size of {} bytes", apart, page),
               SkipKind::not_applicable);
  require_event(event, info, managed);
  const auto node = static_cast<int>(c.integer("node"));
  require_node(node);
  const auto threads = event.timed ? static_cast<unsigned>(c.integer("threads")) : 1u;
  const std::size_t far = std::max(kFarApart, apart);
  const std::size_t bytes = std::max(memory::byte_count(touches, apart), memory::byte_count(singles, far));
  c.needs(bytes, info.integrated ? 0 : bytes);

  const device::Selected on(gpu);
  Rounds rounds(c, event, gpu, managed, pages, node >= 0 ? node : c.numa_node(), threads);
  const char* timer = rounds.timer();
  c.verify(
      "each page was untouched, or touched by the CPU, as the event requires, and contains what was written",
      [&] {
        if (rounds.wrong() > 0) c.warn("faults_wrong", rounds.reason());
        return static_cast<double>(rounds.wrong());
      },
      0);

  std::vector<Metric> metrics{time_metric("time", timer, kUnbounded), rate_metric("rate", "1/s", timer, kUnbounded),
                              time_metric("time_faulting", timer, kUnbounded),
                              time_metric("time_present", timer, kUnbounded)};
  if (event.timed) metrics.push_back(time_metric("time_prefault", "clock", kUnbounded));
  c.sampling().sample(std::move(metrics), [&] {
    const auto faults = static_cast<double>(touches);
    const double prefault = rounds.renew(touches, apart);
    const double faulting = rounds.touch(by_gpu, 0, touches, true);
    const double present = rounds.touch(by_gpu_again, 0, touches, true);
    rounds.check();
    c.sampling().batch(static_cast<int>(std::min(faults, 1e9)));
    const double net = faulting - present + (event.timed ? prefault : 0);
    if (!(net > 0) && !c.emulated())
      c.sampling().invalidate("below_baseline", "touching present pages took longer than faulting");
    std::vector<double> values{net / faults, net > 0 ? faults / net : 0, faulting / faults, present / faults};
    if (event.timed) values.push_back(prefault / faults);
    return values;
  });
  if (const auto moved = rounds.moved()) {
    c.report(share_metric("pages_moved", "event"), *moved);
    if (*moved < 0.99)
      c.warn("pages_stayed",
             fmt::format("{:.0f}% of the pages left the host when the GPU accessed them: it accesses the rest there",
                         100 * *moved));
  }

  // Single faults: one page and one kernel each.
  std::vector<double> faulting, present;
  rounds.renew(singles, far);
  for (std::size_t i = 0; i < singles; ++i) faulting.push_back(rounds.touch(by_gpu, i, 1, false));
  for (std::size_t i = 0; i < singles; ++i) present.push_back(rounds.touch(by_gpu_again, i, 1, false));
  rounds.check();
  const auto names = percentile_names();
  const auto values = percentiles(std::move(faulting), std::move(present));
  for (std::size_t i = 0; i < names.size(); ++i) c.once(time_metric(names[i], timer, kUnbounded), values[i]);
  c.verify("single faults behave like simultaneous ones", [&] { return static_cast<double>(rounds.wrong()); }, 0);
}

Workload workload(const GpuEvent& event, int gpu, const Machine& machine) {
  Workload w(fmt::format("fault/gpu{}/{}", gpu, event.name), [&event, gpu](Case& c) { run(c, event, gpu); });
  std::vector<std::string> metrics{"time", "rate", "time_faulting", "time_present"};
  if (event.timed) metrics.emplace_back("time_prefault");
  for (auto& name : percentile_names()) metrics.push_back(std::move(name));
  w.version(1)
      .summary(fmt::format("page fault of gpu{}: {}", gpu, event.words))
      .source("mi300a-upm-2025, section III-A 6 and Figures 7 and 8")
      .tags({"fault", "gpu", std::string(event.name)})
      .stagings({})
      .devices({gpu})
      .metrics(std::move(metrics))
      .reported(event.migrates ? std::vector<std::string>{"pages_moved"} : std::vector<std::string>{})
      .estimate([](const CaseSpec& spec) { return 20e-6 + 3e-6 * static_cast<double>(spec.integer("at_once")); });
  w.axis(number_axis("at_once", "pages touched by one kernel, one thread each", 1024)
             .with_default_sweep({1, 1024, 64 * kKi})
             .with_size_sweep(powers(1, 8 * kMi)))
      .axis(choice_axis("memory", "managed, or pageable (HMM, ATS, XNACK)", {"managed", "pageable"})
                .with_default_sweep_of_all())
      .axis(choice_axis("pages", "size of pageable pages", {"small", "huge"}))
      .axis(bytes_axis("apart", "bytes from one touched page to the next; 0: the size of a page", 0, 0))
      .axis(number_axis("singles", "single faults behind the percentiles", 100));
  if (event.timed) w.axis(threads_axis("host threads that touch the pages first; 0: all"));
  w.axis(node_axis(machine));
  w.size("tiny", {{"at_once", 256}, {"singles", 8}}).size("small", {{"at_once", 4096}});
  w.preset({.name = "paper-fig7",
            .help = "Figure 7: 1 to 8 Mi pages at once",
            .settings = event.timed ? AxisSettings{{"threads", 0}} : AxisSettings{},
            .sweep_axis = "at_once",
            .sweep = powers(1, 8 * kMi)});
  if (!event.timed)
    w.preset({.name = "paper-fig8",
              .help = "Figure 8: a hundred single pages",
              .settings = {{"at_once", 1}, {"singles", 100}}});
  return w;
}

}  // namespace

std::vector<Workload> gpu_workloads(const Machine& machine) {
  std::vector<Workload> list;
  for (int gpu = 0; gpu < machine.gpus; ++gpu) {
    for (const auto& event : kGpuEvents) list.push_back(workload(event, gpu, machine));
  }
  return list;
}

}  // namespace isthmus::microbench::fault_cost
