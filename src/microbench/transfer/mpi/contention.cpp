// mpi/pinned-gpus/ce, mpi/gpus-pinned/ce: every rank copies between its own host memory and its own GPU, first all
// ranks at the same time and then one after the other. The ratio of the two rates shows how much the ranks contend for
// the host.

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "microbench/axes.hpp"
#include "microbench/transfer/limits.hpp"
#include "microbench/transfer/movement.hpp"
#include "microbench/transfer/mpi/readings.hpp"

namespace isthmus::microbench::transfer {

namespace {

using namespace workload;

struct Variant {
  bool in = true;  ///< copies to the GPU; otherwise from it
  bool duplex = false;

  std::string name() const { return std::string(in ? "pinned-gpus" : "gpus-pinned") + (duplex ? "/ce-duplex" : "/ce"); }
  std::string summary() const {
    if (duplex) return "each rank's pinned memory and GPU, all ranks and both ways at once";
    return in ? "each rank's pinned memory to its own GPU, all ranks at once"
              : "each rank's GPU to its own pinned memory, all ranks at once";
  }
};

/// Warns if ranks share a GPU. Each rank should have its own GPU; otherwise ranks contend for the GPU rather than for
/// the host.
void warn_of_shared_gpus(Case& c) {
  if (c.emulated()) return;
  std::set<std::string> seen;
  for (const auto& uuid : c.team().exchange(std::string_view(c.device().uuid))) {
    if (!seen.insert(uuid).second) {
      c.warn("gpu_shared", "several ranks use " + uuid + ": start no more ranks than there are GPUs");
      return;
    }
  }
}

std::vector<double> rates(double bytes, const std::vector<double>& seconds) {
  std::vector<double> list;
  for (const double each : seconds) list.push_back(bytes / each);
  return list;
}

void contend(Case& c, const Variant& variant) {
  auto& team = c.team();
  const End own_gpu = gpu(device::selected()), pinned{Kind::pinned};
  const Settings settings{.bytes = c.extent("bytes"), .seed = c.seed(), .host = {.numa_node = c.numa_node()}};
  std::vector<Leg> legs{variant.in ? Leg{pinned, own_gpu} : Leg{own_gpu, pinned}};
  if (variant.duplex) legs.push_back({legs[0].to, legs[0].from});
  const auto each = footprint(legs[0].from, legs[0].to, Initiator::ce, settings);
  c.needs(each.host * legs.size() * team.on_this_node(), each.device * legs.size());
  warn_of_shared_gpus(c);

  std::vector<std::unique_ptr<Movement>> movements;
  std::vector<Lane> lanes;
  for (const auto& [from, to] : legs) {
    movements.push_back(make_movement(from, to, Initiator::ce, settings, static_cast<unsigned>(movements.size())));
    lanes.push_back(movements.back()->lane());
  }
  for (const auto& movement : movements) {
    for (auto& sentence : movement->disagreements()) c.warn("placement_disagrees", std::move(sentence));
  }
  Lanes copies(c, std::move(lanes));

  // Seconds of one copy on this rank, from the return of `start` to its last byte.
  const auto copy = [&](int times, const std::function<void()>& start) {
    double begin = 0;
    read(c, copies, times, [&] {
      start();
      begin = now();
    });
    return (now() - begin) / times;
  };
  const auto together = [&](int times) { return copy(times, [&] { team.start(); }); };
  const auto in_turn = [&](int times) {
    double seconds = 0;
    for (int turn = 0; turn < team.size(); ++turn) {
      team.start();
      if (turn == team.rank()) seconds = copy(times, [] {});
    }
    return seconds;
  };

  const double bytes = static_cast<double>(settings.bytes * legs.size());
  const std::string direction = variant.duplex ? "" : variant.in ? "h2d" : "d2h";
  const auto rate_of = [&](std::string name, double of) {
    return rate_metric(std::move(name), "B/s", "clock", kPathUnknown).moving(of, of, direction);
  };
  std::vector<Metric> metrics{
      rate_of("rate", bytes * team.size()), rate_of("alone", bytes * team.size()),
      share_metric("contention_share", "clock", "1 means no contention, and clocks are inexact")};
  for (const std::string name : {"rate_rank", "alone_rank"}) {
    for (int rank = 0; rank < team.size(); ++rank) metrics.push_back(rate_of(name + std::to_string(rank), bytes));
  }

  verify(c, movements);
  const int times = [&] {
    c.team().start();
    copies.run();  // the first copy is slower
    return repetitions(c, copies.run().all, c.sampling().largest_batch());
  }();
  c.sampling().sample(metrics, [&] {
    const auto at_once = team.exchange(together(times));
    const auto alone = rates(bytes, team.exchange(in_turn(times)));
    const double rate = bytes * team.size() / *std::max_element(at_once.begin(), at_once.end());
    const double sum = std::accumulate(alone.begin(), alone.end(), 0.0);
    std::vector<double> values{rate, sum, rate / sum};
    for (const double own : rates(bytes, at_once)) values.push_back(own);
    values.insert(values.end(), alone.begin(), alone.end());
    return values;
  });
}

Workload workload(const Variant& variant) {
  return Workload("mpi/" + variant.name(), [variant](Case& c) { contend(c, variant); })
      .version(1)
      .summary(variant.summary())
      .source("isthmus")
      .tags({"mpi", "transfer", "ce"})
      .several_ranks()
      .stagings({})
      .metrics({"rate", "alone", "contention_share"})
      // The estimate assumes three ranks and roughly the rate of PCIe 4. It predicts how long a run takes.
      .estimate([](const CaseSpec& spec) { return 5e-3 + 4 * static_cast<double>(spec.integer("bytes")) / 20e9; })
      .axis(bytes_axis("bytes", "bytes of one transfer of a rank", 256 * kMi)
                .with_default_sweep({1 * kMi, 32 * kMi, 1 * kGi})
                .with_size_sweep(powers(64 * kKi, 4 * kGi)))
      .sizes({"bytes"}, {1 * kMi, 16 * kMi, 64 * kMi, 512 * kMi, 4 * kGi});
}

const Registration in(workload({.in = true}));
const Registration out(workload({.in = false}));
const Registration duplex(workload({.in = true, .duplex = true}));

}  // namespace
}  // namespace isthmus::microbench::transfer
