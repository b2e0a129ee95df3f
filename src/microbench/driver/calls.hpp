#pragma once

// How the cost of a call is read: on the host's clock, so often in a row that the clock can tell.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "microbench/call_cost.hpp"

namespace isthmus::microbench::driver {

/// Samples the cost of one `call`. `settle` follows each reading and is in none.
void sample_call(
    workload::Case& c, std::string name, const std::function<void()>& call,
    const std::function<void()>& settle = [] {});

/// Samples what the device takes for one of the `parts` of what `queue` queues, one after the other and with no gap for
/// their submission.
void sample_on_device(workload::Case& c, std::string name, const std::function<void(device::Stream&)>& queue,
                      int parts = 1);

/// Samples what `make` takes, and what it takes to destroy what it makes; without a name for the latter, it is in no
/// reading.
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

/// A registration of this family, with what is common to all. `seconds` is roughly what one operation takes.
workload::Workload workload(const std::string& name, void (*function)(workload::Case&), std::string summary,
                            std::vector<std::string> metrics, double seconds);

}  // namespace isthmus::microbench::driver
