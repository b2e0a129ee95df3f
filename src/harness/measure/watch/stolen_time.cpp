#include "harness/measure/watch/stolen_time.hpp"

#include <algorithm>
#include <fstream>
#include <istream>
#include <string>

namespace isthmus::harness {

std::optional<ProcessorTime> processor_time(std::istream& stat) {
  // Fields: cpu user nice system idle iowait irq softirq steal …; the time of guests is included in user and nice.
  constexpr int fields = 8;
  std::string word;
  if (!(stat >> word) || word != "cpu") return std::nullopt;
  ProcessorTime time;
  for (int i = 0; i < fields; ++i) {
    double ticks = 0;
    if (!(stat >> ticks)) return std::nullopt;
    time.all += ticks;
    if (i == fields - 1) time.stolen = ticks;
  }
  return time;
}

std::optional<ProcessorTime> processor_time() {
  std::ifstream stat("/proc/stat");
  return processor_time(stat);
}

std::optional<double> stolen_share(const std::optional<ProcessorTime>& before,
                                   const std::optional<ProcessorTime>& after) {
  if (!before || !after || after->all <= before->all) return std::nullopt;
  // Some of these counters may decrease slightly.
  return std::clamp((after->stolen - before->stolen) / (after->all - before->all), 0.0, 1.0);
}

}  // namespace isthmus::harness
