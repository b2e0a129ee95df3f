#pragma once

// Cost of a call, measured by the host's clock over enough calls in a row for the clock to resolve them.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "microbench/call_cost.hpp"

namespace isthmus::microbench::driver {

/// Samples the cost of one `call`. `settle` runs after each sample and is not timed.
void sample_call(
    workload::Case& c, std::string name, const std::function<void()>& call,
    const std::function<void()>& settle = [] {});

/// Samples the device time of one part of the work that `queue` queues. The work consists of `parts` parts that run one
/// after the other, without a gap for their submission.
void sample_on_device(workload::Case& c, std::string name, const std::function<void(device::Stream&)>& queue,
                      int parts = 1);

/// Samples the time of `make` and the time to destroy what it makes. Without `destroy_name`, destruction is not timed.
template <class Make>
void sample_making(workload::Case& c, std::string make_name, const std::string& destroy_name, Make make) {
  std::vector<decltype(make())> made;
  const auto both = [&](int times) {
    made.reserve(static_cast<std::size_t>(times));
    const double making = timed([&] {
      for (int i = 0; i < times; ++i) made.push_back(make());
    });
    return std::vector{making, timed([&] { made.clear(); })};
  };
  const bool two = !destroy_name.empty();
  const int times = c.sampling().batch_for("clock", c.sampling().largest_batch(), [&](int n) {
    const auto seconds = both(n);
    return two ? std::min(seconds[0], seconds[1]) : seconds[0];
  });
  std::vector<workload::Metric> metrics{workload::time_metric(std::move(make_name), "clock", kCallsUnbounded)};
  if (two) metrics.push_back(workload::time_metric(destroy_name, "clock", kCallsUnbounded));
  c.sampling().sample(std::move(metrics), [&] {
    c.sampling().batch(times);
    auto seconds = both(times);
    for (auto& each : seconds) each /= times;
    if (!two) seconds.pop_back();
    return seconds;
  });
}

/// Creates a workload with the settings that all workloads of this family share. `seconds` is the rough duration of one
/// operation.
workload::Workload workload(const std::string& name, void (*function)(workload::Case&), std::string summary,
                            std::vector<std::string> metrics, double seconds);

}  // namespace isthmus::microbench::driver
