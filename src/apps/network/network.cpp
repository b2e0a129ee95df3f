// Inference with darknet's networks: runs all layers, from images to results, with memory allocated as the case
// selects.

#include "apps/network/check.hpp"
#include "apps/network/program.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

void infer(Case& c) {
  const auto description = description_of(c);
  const NetworkCase inference(c, description);
  const auto& results = inference.results();
  c.verify(
      "each layer in double, and identical results in two runs",
      [=, seed = c.seed(), &stream = c.stream()] {
        const std::vector<float> measured(results.host(), results.host() + results.size());
        return check_layers(inference.network(), inference.addresses(), inference.staging(), seed, stream, measured);
      },
      1);
  const auto body = [=](Run& run) {
    const auto at = inference.addresses();
    Forward(inference.network(), at, inference.staging(), run).queue();
  };
  if (inference.network().library) {
    c.measure(Control::queued, body);  // the library may choose other algorithms for another batch
  } else {
    c.verify_same(results);
    measure_batch(c, body, [&](std::size_t batch) { return make_plan(description, plan_options(c, batch)); });
  }
  observe_memory(c, inference.network(), inference.allocations());
  if (const auto floats = inference.network().ring.floats; floats > 0)
    c.report(amount_metric("ring_bytes", "B", Better::lower, "none"), 4.0 * static_cast<double>(floats));
}

const Registration registration = network_program("apps/network", infer)
                                      .version(2)
                                      .summary("inference of a convolutional network, layer by layer, in strict fp32")
                                      .metrics({"tensor_bytes", "live_bytes", "allocations"})
                                      .reported({"ring_bytes"});

}  // namespace
}  // namespace isthmus::apps
