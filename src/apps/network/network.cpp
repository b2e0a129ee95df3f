// A network's layers, from images to what it says of them: darknet's inference with memory as it is asked for.

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
      "each layer in double, and twice the same results",
      [=, seed = c.seed(), &stream = c.stream()] {
        const std::vector<float> measured(results.host(), results.host() + results.size());
        return check_layers(inference.network(), inference.addresses(), inference.staging(), seed, stream, measured);
      },
      1);
  c.verify_same(results);
  try {
    c.measure(Control::queued, [=](Run& run) {
      const auto at = inference.addresses();
      Forward(inference.network(), at, inference.staging(), run).queue();
    });
  } catch (const Skip& skip) {
    if (!skip.shortage) throw;
    throw Skip(std::string(skip.what()) + "; " + largest_batch(c, description, *skip.shortage), *skip.shortage);
  }
  const auto& network = inference.network();
  c.observe(amount_metric("tensor_bytes", "B", Better::lower, "none"),
            4.0 * static_cast<double>(network.memory.floats()));
  c.observe(amount_metric("live_bytes", "B", Better::lower, "none"),
            4.0 * static_cast<double>(most_live(spans_of(network.plan))));
  c.observe(count_metric("allocations"), static_cast<double>(inference.allocations()));
}

const Registration registration = network_program("apps/network", infer)
                                      .version(1)
                                      .summary("inference of a convolutional network, layer by layer, in strict fp32")
                                      .metrics({"tensor_bytes", "live_bytes", "allocations"});

}  // namespace
}  // namespace isthmus::apps
