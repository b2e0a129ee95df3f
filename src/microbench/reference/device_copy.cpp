// reference/device_copy: what copies within the device's memory reach, the bound that the seven workloads are read
// against. Bytes read plus bytes written over time, so that it compares with a kernel's declared traffic; copies by
// every other way, and between memories, are transfer/*.

#include "harness/lanes.hpp"
#include "microbench/transfer/block.hpp"

namespace isthmus::microbench {
namespace {

using namespace harness;

void device_copy(Case& c) {
  const std::size_t bytes = c.extent("bytes");
  c.needs(0, 2 * bytes);
  const auto end = transfer::gpu(c.device().index);
  const transfer::Pattern pattern{c.seed(), 0};
  transfer::Block from(end, bytes, {}), to(end, bytes, {});
  from.fill(pattern);
  to.poison();
  c.verify("every byte arrived", [&] { return static_cast<double>(to.wrong(pattern)); }, 0);

  Lane lane;
  lane.device = end.index;
  lane.queue = [&](device::Stream& stream) { device::copy_async(to.data(), from.data(), bytes, stream); };
  Lanes copy(c, {lane});
  const double moved = 2.0 * static_cast<double>(bytes);
  c.sample({.name = "rate",
            .unit = "B/s",
            .better = Better::higher,
            .timer = copy.timer(),
            .direction = "d2d",
            .bytes_needed = static_cast<double>(bytes),
            .bytes_moved = moved,
            .limit = c.device().memory_bandwidth,
            .limit_source = "peak device memory bandwidth"},
           [&] { return moved / read(c, copy).all; });
}

const Registration registration = [] {
  constexpr std::int64_t mi = std::int64_t{1} << 20;
  Workload w("reference/device_copy", device_copy);
  w.version(1)
      .summary("device-to-device copy, bytes read plus bytes written")
      .source("isthmus")
      .tags({"reference"})
      .stagings({})
      .metrics({"rate"})
      .estimate([](const CaseSpec& spec) { return static_cast<double>(spec.integer("bytes")) / 500e9; })
      .axis({.name = "bytes",
             .help = "bytes of one copy",
             .default_value = 64 * mi,
             .allowed = {},
             .minimum = 1,
             .bytes = true})
      .size("tiny", {{"bytes", mi}})
      .size("small", {{"bytes", 16 * mi}})
      .size("medium", {{"bytes", 64 * mi}})
      .size("large", {{"bytes", 512 * mi}})
      .size("super", {{"bytes", 4096 * mi}});
  return w;
}();

}  // namespace
}  // namespace isthmus::microbench
