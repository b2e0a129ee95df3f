#include "microbench/transfer/mpi/readings.hpp"

#include <algorithm>

namespace isthmus::microbench::transfer {

using namespace harness;

int repetitions(Case& c, double seconds, int most) {
  constexpr double kLongEnough = 2e-3;
  const auto all = c.team().exchange(seconds);
  const double slowest = std::max(*std::max_element(all.begin(), all.end()), 1e-9);
  if (c.emulated()) return 1;
  return static_cast<int>(std::clamp(kLongEnough / slowest + 1, 1.0, static_cast<double>(most)));
}

Metric rate_metric(std::string name, double bytes, std::string direction) {
  return {.name = std::move(name),
          .unit = "B/s",
          .better = Better::higher,
          .timer = "clock",
          .direction = std::move(direction),
          .bytes_needed = bytes,
          .bytes_moved = bytes,
          .limit_reason = "what lies between the ranks is not read"};
}

Axis bytes_axis(std::string help, std::int64_t value, std::vector<AxisValue> usual, std::int64_t sweep_from,
                std::int64_t sweep_to) {
  Axis axis{.name = "bytes", .help = std::move(help), .default_value = value, .allowed = {}, .minimum = 1};
  axis.bytes = true;
  axis.usual = std::move(usual);
  for (std::int64_t bytes = sweep_from; bytes <= sweep_to; bytes *= 2) axis.sweep.emplace_back(bytes);
  return axis;
}

}  // namespace isthmus::microbench::transfer
