// fault/*: cost of one page fault. In contrast, transfer/*/fault measures how fast page faults move bytes.

#include "microbench/fault_cost/family.hpp"

#include <algorithm>

#include "memory/parallel.hpp"
#include "microbench/axes.hpp"

namespace isthmus::microbench::fault_cost {

using namespace workload;

constexpr double kShares[] = {0.50, 0.95, 0.99};

std::vector<AxisValue> default_threads(unsigned all) {
  std::vector<AxisValue> values;
  unsigned last = 0;
  for (const unsigned threads : {1u, all / 2, all}) {
    if (threads > last) values.emplace_back(threads);
    last = std::max(last, threads);
  }
  return values;
}

Axis threads_axis(const char* help) {
  const auto sweep = default_threads(memory::host_threads());
  return number_axis("threads", help, 1, 0).with_default_sweep(sweep).with_all_values(sweep);
}

std::vector<std::string> percentile_names() {
  std::vector<std::string> names;
  for (const std::string kind : {"", "faulting_", "present_"}) {
    for (const char* share : {"p50", "p95", "p99"}) names.push_back(kind + share);
  }
  return names;
}

std::vector<double> percentiles(std::vector<double> faulting, std::vector<double> present) {
  std::sort(faulting.begin(), faulting.end());
  std::sort(present.begin(), present.end());
  const auto at = [](const std::vector<double>& seconds, double share) {  // nearest-rank percentile
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(seconds.size()) + 0.999999);
    return seconds[std::clamp<std::size_t>(rank, 1, seconds.size()) - 1];
  };
  // For a fault alone, the typical time of a touch without a fault, which includes reading the clock, is subtracted.
  std::vector<double> values;
  for (const double share : kShares) values.push_back(at(faulting, share) - at(present, kShares[0]));
  for (const double share : kShares) values.push_back(at(faulting, share));
  for (const double share : kShares) values.push_back(at(present, share));
  return values;
}

static const Family family("fault/", all_of<cpu_workloads, gpu_workloads>);

}  // namespace isthmus::microbench::fault_cost
