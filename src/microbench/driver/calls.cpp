#include "microbench/driver/calls.hpp"

#include "workload/lanes.hpp"

namespace isthmus::microbench::driver {

using namespace workload;

void sample_call(Case& c, std::string name, const std::function<void()>& call, const std::function<void()>& settle) {
  const auto seconds_of = [&](int times) {
    const double seconds = timed([&] {
      for (int i = 0; i < times; ++i) call();
    });
    settle();
    return seconds;
  };
  const int times = c.sampling().batch_for("clock", c.sampling().largest_batch(), seconds_of);
  c.sampling().sample(time_metric(std::move(name), "clock", kCallsUnbounded), [&] {
    c.sampling().batch(times);
    return seconds_of(times) / times;
  });
}

void sample_on_device(Case& c, std::string name, const std::function<void(device::Stream&)>& queue, int parts) {
  Lane lane;
  lane.device = c.device().index;
  lane.queue = queue;
  Lanes alone(c, {std::move(lane)});
  int most = c.sampling().largest_batch();
  const auto seconds_of = [&](int times) {
    const auto taken = alone.run(times);
    if (!taken.invalid) return taken.all * times;
    most = std::max(1, times / 2);  // the queue was full before the latch opened
    return std::numeric_limits<double>::infinity();
  };
  int times = c.sampling().batch_for(alone.timer(), most, seconds_of);
  times = std::min(times, most);
  c.sampling().sample(time_metric(std::move(name), alone.timer(), kCallsUnbounded), [&] {
    const auto taken = read(c, alone, times);
    c.sampling().batch(times * parts);
    return taken.all / parts;
  });
}

Workload workload(const std::string& name, void (*function)(Case&), std::string summary,
                  std::vector<std::string> metrics, double seconds) {
  Workload w("driver/" + name, function);
  w.version(1)
      .summary(std::move(summary))
      .source("isthmus")
      .tags({"driver"})
      .stagings({})
      .metrics(std::move(metrics))
      .estimate([seconds](const CaseSpec&) { return seconds; });
  return w;
}

}  // namespace isthmus::microbench::driver
