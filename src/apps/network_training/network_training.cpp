// Training of a network by stochastic gradient descent. The forward pass, the backward pass and the update all run on
// the device.

#include <cmath>

#include "apps/network/program.hpp"
#include "apps/network_training/check.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

/// Network that a case trains, with its buffers. Weights are copied in and out, images and targets in, losses out.
class TrainingCase {
 public:
  TrainingCase(Case& c, NetworkDescription description)
      : training_(make_network(c, std::move(description))),
        steps_(c.extent("steps")),
        images_(c.input<float>("images", batch() * training_->network.plan.network.input.size(),
                               [seed = c.seed()](std::size_t i) { return Network::image_value(seed, i); })),
        targets_(c.input<float>(
            "targets", batch() * training_->network.plan.results,
            [training = training_, seed = c.seed()](std::size_t i) { return training->target(seed, i); })),
        losses_(c.output<float>("losses", steps_)) {
    with_staging<ring>(c, [&](auto how, auto) { staging_ = how(); });
    const auto& parameters = *training_->network.parameters;
    refuse_if(parameters.floats() == 0, "a network without weights learns nothing: add a layer with weights");
    if (c.choice("allocation") == "tensor") {
      for (const auto& array : parameters.arrays())
        weights_.push_back(c.inout<float>(array.name(), array.count, [training = training_, array](std::size_t i) {
          return (*training->network.parameters)(array, i);
        }));
    } else {
      weights_.push_back(c.inout<float>("weights", parameters.floats(), [training = training_](std::size_t i) {
        return (*training->network.parameters)(i);
      }));
    }
    for (const auto& weights : weights_) {
      gradients_.push_back(c.scratch<float>("gradients " + std::to_string(gradients_.size()), weights.size()));
      velocities_.push_back(c.scratch<float>("velocities " + std::to_string(velocities_.size()), weights.size()));
    }
    for (const auto floats : training_->network.memory.buffers)
      buffers_.push_back(c.scratch<float>("tensors " + std::to_string(buffers_.size()), floats));
  }

  const TrainingNetwork& training() const { return *training_; }
  TileStaging staging() const { return staging_; }
  std::size_t steps() const { return steps_; }
  const Buffer<float>& losses() const { return losses_; }
  const std::vector<Buffer<float>>& weights() const { return weights_; }
  const std::vector<Buffer<float>>& velocities() const { return velocities_; }
  std::size_t allocations() const { return 3 * weights_.size() + buffers_.size() + 3; }

  TrainingAddresses addresses() const {
    TrainingAddresses at{.targets = targets_.device(), .losses = losses_.device()};
    at.forward.images = images_.device();
    const auto& arrays = training_->network.parameters->arrays();
    const auto array = [&](const std::vector<Buffer<float>>& buffers, std::size_t a) {
      return buffers.size() == arrays.size() ? buffers[a].device() : buffers[0].device() + arrays[a].offset;
    };
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      at.values.push_back(array(weights_, a));
      at.gradients.push_back(array(gradients_, a));
      at.velocities.push_back(array(velocities_, a));
      at.forward.parameters.push_back(at.values.back());
    }
    for (const auto& buffer : buffers_) at.forward.buffers.push_back(buffer.device());
    return at;
  }

 private:
  std::size_t batch() const { return training_->network.plan.batch; }
  static std::shared_ptr<const TrainingNetwork> make_network(const Case& c, NetworkDescription description) {
    auto plan = make_training_plan(std::move(description), c.extent("batch"));
    auto memory = plan_memory(plan.plan, c.choice("allocation"));
    return std::make_shared<const TrainingNetwork>(std::move(plan), std::move(memory), c.seed());
  }

  std::shared_ptr<const TrainingNetwork> training_;
  std::size_t steps_;
  Buffer<float> images_, targets_, losses_;
  std::vector<Buffer<float>> weights_{}, gradients_{}, velocities_{}, buffers_{};
  TileStaging staging_{};
};

void train(Case& c) {
  const auto description = description_of(c);
  const TrainingCase own(c, description);
  const auto losses = std::make_shared<std::vector<float>>();
  c.verify(
      "each layer forward and backward in double, and identical losses and weights in two runs",
      [=, seed = c.seed(), &stream = c.stream()] {
        losses->assign(own.losses().host(), own.losses().host() + own.losses().size());
        std::vector<std::vector<float>> learned;
        for (const auto& weights : own.weights()) learned.emplace_back(weights.host(), weights.host() + weights.size());
        return check_training(own.training(), own.addresses(), own.staging(), seed, stream, *losses, learned);
      },
      1);
  c.verify_same(own.losses());
  if (own.weights().size() == 1) c.verify_same(own.weights()[0]);
  measure_batch(
      c,
      [=](Run& run) {
        const auto at = own.addresses();
        for (const auto& velocities : own.velocities()) run.fill(velocities, 0);
        Training training(own.training(), at, own.staging(), run);
        for (std::size_t step = 0; step < own.steps(); ++step) training.queue(step);
      },
      [&](std::size_t batch) { return make_training_plan(description, batch).plan; });
  observe_memory(c, own.training().network, own.allocations());
  if (losses->empty()) return;
  c.report(amount_metric("first_loss", "1", std::nullopt, "none"), losses->front());
  c.report(amount_metric("last_loss", "1", std::nullopt, "none"), losses->back());
}

Workload workload() {
  Workload program("apps/network_training", train);
  add_network(program);
  program.version(2)
      .summary("training of a convolutional network by stochastic gradient descent, in strict fp32")
      .axis(number_axis("steps", "training steps in a pass, on the same images", 1))
      .axis(how(choice_axis("allocation", "one allocation per array, or one for all weights and one for all tensors",
                            {"arena", "tensor"})))
      .axis(submission_axis())
      .metrics({"tensor_bytes", "live_bytes", "allocations"})
      .reported({"first_loss", "last_loss"});
  return program;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::apps
