// stream/*: memory bandwidth that the CPU and each GPU reach, for each operation.

#include "microbench/stream/family.hpp"

#include "microbench/axes.hpp"
#include "microbench/stream/checks.hpp"

namespace isthmus::microbench::stream {

using namespace workload;

namespace {

const Family family("stream/", all_of<cpu_workloads, gpu_workloads>);

bool has_offset(Operation operation) {
  return facts(operation).arrays() > 1;
}

}  // namespace

void add_bytes_axis(Workload& workload, std::int64_t default_bytes) {
  workload.axis(
      bytes_axis("bytes", "bytes of one array, of which the operation uses one to three", default_bytes, kPiece * 8)
          .with_default_sweep({default_bytes})
          .with_size_sweep(powers(4 * kKi, 4 * kGi)));
}

void add_sizes(Workload& workload) {
  workload.sizes({"bytes"}, {1 * kMi, 16 * kMi, 128 * kMi, 1 * kGi, 4 * kGi});
}

void add_cpu_axes(Workload& workload, Operation operation, const Machine& machine, bool several) {
  add_thread_axes(workload, machine, several);
  if (has_offset(operation))
    workload.axis(bytes_axis("offset",
                             "bytes from the end of an array to the next one (STREAM's OFFSET): reads and writes at "
                             "the same offset in a page hinder each other",
                             1024, 0));
  if (facts(operation).writes == 0) return;
  Axis stores = choice_axis(
      "stores", "how elements are stored: through the caches (a line is fetched before it is changed) or past them",
      {"standard", "streaming"});
  if (several) stores.default_sweep = stores.choices;
  workload.axis(std::move(stores));
}

Stores stores_of(const Case& c, Operation operation) {
  if (facts(operation).writes == 0 || c.choice("stores") == "standard") return Stores::standard;
  if (!has_streaming_stores()) throw Skip("this build has no streaming stores (past the caches) for this CPU");
  return Stores::streaming;
}

Layout layout_of(const Case& c, Operation operation, bool by_cpu) {
  const std::size_t bytes = c.extent("bytes"),
                    offset = by_cpu && has_offset(operation) ? static_cast<std::size_t>(c.integer("offset")) : 0;
  constexpr std::size_t piece = kPiece * sizeof(double);
  for (const std::size_t each : {bytes, offset}) {
    if (each % piece != 0)
      throw Skip(std::to_string(each) + " bytes are not a multiple of " + std::to_string(piece) + " bytes",
                 SkipKind::not_applicable);
  }
  return {operation, bytes / sizeof(double), offset};
}

std::vector<Metric> metrics(Operation operation, std::size_t count, const std::string& timer, double moved) {
  const double needed = facts(operation).arrays() * sizeof(double) * static_cast<double>(count);
  const Bound unknown = "the host's peak memory bandwidth is unknown";
  return {time_metric("time", timer, unknown).moving(needed, moved),
          rate_metric("rate", "B/s", timer, unknown).moving(needed, moved)};
}

namespace {

// The first pass after the inputs were written may fault if the GPU wrote them.
constexpr const char* kInitFaults = "init_page_faults";
constexpr const char* kFirstFaults = "first_pass_page_faults";
constexpr const char* kLaterFaults = "page_faults_per_pass";

long faults_since(const memory::PageFaults& before) {
  return (memory::process_page_faults() - before).all();
}

}  // namespace

std::vector<std::string> metrics_on_cpu() {
  return {"time", "rate", kInitFaults, kFirstFaults, kLaterFaults};
}

void observe_init(Case& c, const memory::PageFaults& before) {
  c.report(count_metric(kInitFaults), static_cast<double>(faults_since(before)));
}

void measure_on_cpu(Case& c, Operation operation, HostTeam& team, Stores stores, const Arrays& arrays) {
  const auto& operation_facts = facts(operation);
  const double bytes = static_cast<double>(arrays.count) * sizeof(double);
  const unsigned fetched = stores == Stores::standard ? operation_facts.writes : 0;
  const auto both = metrics(operation, arrays.count, "clock", bytes * (operation_facts.arrays() + fetched));
  const double needed = bytes * operation_facts.arrays();

  const double sum = operation == Operation::read ? expected_sum(c.seed(), arrays.count) : 0;
  const auto wrong = [&]() -> std::size_t {
    if (operation == Operation::read) return team.sum() == sum ? 0 : 1;
    return wrong_results(operation, c.seed(), arrays.out, arrays.count, Reach::host);
  };
  c.verify(
      "every element after all repetitions, and after one more over poison",
      [&] {
        const std::size_t after_all = wrong();
        team.poison(arrays);
        team.run(operation, stores, arrays, 1);
        return static_cast<double>(after_all + wrong());
      },
      0);
  const auto before_first = memory::process_page_faults();
  team.run(operation, stores, arrays, 1);
  c.report(count_metric(kFirstFaults), static_cast<double>(faults_since(before_first)));
  const int times = c.sampling().batch_for("clock", c.sampling().largest_batch(),
                                           [&](int n) { return team.run(operation, stores, arrays, n); });
  double faults = 0, passes = 0;
  c.sampling().sample(both, [&] {
    c.sampling().batch(times);
    const auto before = memory::process_page_faults();
    const double seconds = team.run(operation, stores, arrays, times) / times;
    faults += static_cast<double>(faults_since(before));
    passes += times;
    return std::vector{seconds, needed / seconds};
  });
  if (passes > 0) c.report(count_metric(kLaterFaults), faults / passes);
  if (!team.kept_places()) c.warn("threads_strayed", "the system refused to bind threads to their cores");
}

}  // namespace isthmus::microbench::stream
