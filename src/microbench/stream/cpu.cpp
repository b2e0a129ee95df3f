// stream/cpu/<operation>: bandwidth of the CPU to its own memory.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "memory/block.hpp"
#include "memory/processors.hpp"
#include "microbench/axes.hpp"
#include "microbench/stream/family.hpp"

namespace isthmus::microbench::stream {

using namespace workload;

namespace {

/// Default bytes of an array, the same on every machine so that records of two machines have a case in common. STREAM's
/// rules require four times the size of all last-level caches, which this size satisfies for caches of up to 1 GiB
/// (docs/memory-bandwidth.md).
constexpr std::int64_t kDefaultBytes = 4 * kGi;

/// Returns four times the size of all last-level caches of this machine, in bytes: whole mebibytes, at least 64.
std::int64_t bytes_beyond_caches() {
  const auto cache = static_cast<std::int64_t>(memory::processors().last_level_cache_bytes);
  return std::max(64 * kMi, (4 * cache + kMi - 1) / kMi * kMi);
}

/// Returns a text with the size of the last-level caches and that of an array relative to it. It is reported because
/// the default size of an array does not depend on the caches.
std::string caches_beside(std::size_t bytes) {
  const std::size_t cache = memory::processors().last_level_cache_bytes;
  if (cache == 0) return "unknown: the system does not report it";
  return fmt::format("{} MiB; an array is {:.2g} times as large", cache / kMi,
                     static_cast<double>(bytes) / static_cast<double>(cache));
}

void run(Case& c, Operation operation) {
  const ThreadPlaces places = thread_places(c);
  const Stores stores = stores_of(c, operation);
  const Layout layout = layout_of(c, operation, true);
  c.needs(layout.bytes(), 0);
  c.note("last_level_caches", caches_beside(layout.count * sizeof(double)));

  HostTeam team(places.processors, places.memory_node);
  const auto before = memory::process_page_faults();
  const memory::Block block(memory::Kind::pageable, layout.bytes(),
                            memory::BlockOptions{places.memory_node, pages_of(c)});
  const Arrays arrays = layout.at(block.data());
  team.write_inputs(arrays, c.seed());
  observe_init(c, before);
  for (auto& sentence : block.disagreements("the memory")) c.warn("placement_disagrees", std::move(sentence));
  measure_on_cpu(c, operation, team, stores, arrays);
}

Preset cache_preset() {
  return {.name = "cache-relative",
          .help =
              "arrays of four times this machine's last-level caches, STREAM's own rule: quicker than the default, but "
              "not comparable with other machines",
          .settings = {{"bytes", bytes_beyond_caches()}}};
}

Preset paper_preset() {
  Preset preset;
  preset.name = "paper-fig3";
  preset.help = "mi300a-upm-2025, Figure 3, CPU: arrays of 610 MiB, all numbers of threads";
  preset.settings = {{"bytes", 610 * kMi}, {"stores", "standard"}};
  preset.sweep_axis = "threads";
  for (std::int64_t count = 1; count <= static_cast<std::int64_t>(memory::processors().cores.size()); ++count)
    preset.sweep.emplace_back(count);
  return preset;
}

Workload workload(Operation operation, const Machine& machine) {
  const auto& operation_facts = facts(operation);
  Workload w("stream/cpu/" + std::string(operation_facts.name), [operation](Case& c) { run(c, operation); });
  w.version(1)
      .summary("memory of the host, by threads of the CPU: " + std::string(operation_facts.formula))
      .source("mi300a-upm-2025, section IV-B and Figure 3")
      .tags({"stream", "cpu"})
      .stagings({})
      .metrics(metrics_on_cpu())
      .estimate([arrays = operation_facts.arrays()](const CaseSpec& spec) {
        const double rate = 10e9 * static_cast<double>(threads_asked_for(spec));
        return 20e-6 + arrays * static_cast<double>(spec.integer("bytes")) / rate;
      })
      .cpu_only();
  add_bytes_axis(w, kDefaultBytes);
  add_cpu_axes(w, operation, machine, true);
  w.axis(choice_axis("pages", "pages of the arrays", {"standard", "small", "huge"}));
  add_sizes(w);
  w.preset(cache_preset());
  if (operation == Operation::triad) w.preset(paper_preset());
  return w;
}

}  // namespace

std::vector<Workload> cpu_workloads(const Machine& machine) {
  std::vector<Workload> list;
  for (const auto& each : kOperations) list.push_back(workload(each.operation, machine));
  return list;
}

}  // namespace isthmus::microbench::stream
