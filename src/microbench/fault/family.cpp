// fault/*: what one page fault costs. transfer/*/fault is about the bytes that faults move; here it is the fault.

#include "microbench/fault/family.hpp"

#include <algorithm>

#include "memory/parallel.hpp"
#include "microbench/axes.hpp"

namespace isthmus::microbench::fault {

using namespace workload;

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

Percentiles percentiles_of(std::vector<double>& seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {  // the smallest value that so many are not above
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(seconds.size()) + 0.999999);
    return seconds[std::clamp<std::size_t>(rank, 1, seconds.size()) - 1];
  };
  return {at(0.50), at(0.95), at(0.99)};
}

static const Family family("fault/", all_of<cpu_workloads, gpu_workloads>);

}  // namespace isthmus::microbench::fault
