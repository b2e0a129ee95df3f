// driver/graph: cost of creating and launching a graph of consecutive empty kernels, compared with launching them one
// by one.

#include "microbench/driver/calls.hpp"

namespace isthmus::microbench::driver {
namespace {

using namespace workload;

void run(Case& c) {
  c.needs(0, 0);
  const auto nodes = static_cast<int>(c.extent("nodes"));
  device::Stream& stream = c.stream();
  const auto queue_all = [&] {
    for (int i = 0; i < nodes; ++i) launch_empty(stream);
  };
  const auto wait = [&] { stream.synchronize(); };

  sample_making(c, "capture", "", [&] { return device::Graph(stream, queue_all); });
  const device::Graph work(stream, queue_all);
  sample_making(c, "instantiate", "", [&] { return device::ExecutableGraph(work); });
  device::ExecutableGraph ready(work);
  sample_call(c, "submit", [&] { ready.launch(stream); }, wait);
  sample_call(c, "to_end", [&] {
    ready.launch(stream);
    wait();
  });
  sample_call(c, "plain_to_end", [&] {
    queue_all();
    wait();
  });
  sample_on_device(c, "device_per_node", [&](device::Stream& queue) { ready.launch(queue); }, nodes);
}

const Registration registration = [] {
  constexpr std::int64_t one = 1, some = 16, many = 256;
  return workload("graph", run, "graphs of consecutive empty kernels, by their number",
                  {"capture", "instantiate", "submit", "to_end", "plain_to_end", "device_per_node"}, 1e-2)
      .unverified("kernels that do nothing leave nothing to check")
      .axis(number_axis("nodes", "kernels in the graph, each after the one before", some)
                .with_default_sweep({one, some, many}))
      .size("tiny", {{"nodes", some}})
      .size("small", {});
}();

}  // namespace
}  // namespace isthmus::microbench::driver
