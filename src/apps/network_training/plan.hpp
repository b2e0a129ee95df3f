#pragma once

// Additions that training makes to a network's plan: tensors kept for the backward pass, gradients, and the products
// for the gradients of inputs and of weights. Step s runs forward at time s and backward at time 2·steps - 1 - s.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "apps/network/forward.hpp"
#include "apps/network_training/kernels.hpp"

namespace isthmus::apps {

/// Gradient of an input that a step computes in its backward pass.
struct GivenGradient {
  std::size_t of = no_tensor;  ///< the input; no_tensor for images, whose gradient is not computed
  bool adds = false;           ///< true if a later layer has already written a gradient of the input
};

struct TrainingStep {
  bool learns = false;  ///< true if a result that has targets depends on the step
  std::size_t sums = no_tensor, statistics = no_tensor, forward_slices = no_tensor;  ///< batch normalisation
  std::vector<GivenGradient> given{};  ///< one per input; a shortcut's second input is last
  Product data{}, weights{};
  SpreadShape spread{};                                                         ///< addresses are set at launch
  std::size_t slopes = no_tensor, turned = no_tensor, back_slices = no_tensor;  ///< work space
  std::size_t data_partial = no_tensor, weights_partial = no_tensor;
  std::size_t losses = no_tensor;  ///< index of the first loss if work is `leave`; `loss_slices` losses per image
};

struct TrainingPlan {
  Plan plan;
  std::vector<TrainingStep> steps;
  std::vector<std::size_t> gradients;  ///< gradient of each tensor of a layer
  std::size_t losses = no_tensor;      ///< losses of all images and all `leave` steps
  std::size_t leaves = 0;
};

inline unsigned slices_of(std::size_t columns) {
  return static_cast<unsigned>(std::clamp<std::size_t>(columns / 4096, 1, 64));
}

class TrainingPlanner {
 public:
  explicit TrainingPlanner(Plan plan) : made_{.plan = std::move(plan), .steps = {}, .gradients = {}} {}

  TrainingPlan make() && {
    auto& plan = made_.plan;
    made_.steps.resize(plan.steps.size());
    made_.gradients.resize(plan.tensors.size(), no_tensor);
    maker_.resize(plan.tensors.size());
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      if (plan.steps[s].output != no_tensor) maker_[plan.steps[s].output] = s;
      forward(s);
    }
    made_.losses = matrix(1, made_.leaves * plan.batch * loss_slices, 0, plan.steps.size());
    for (std::size_t s = plan.steps.size(); s-- > 0;) back(s);
    return std::move(made_);
  }

 private:
  std::size_t time_back(std::size_t s) const { return 2 * made_.plan.steps.size() - 1 - s; }
  const Layer& layer_of(std::size_t s) const { return made_.plan.network.layers[made_.plan.steps[s].layer]; }

  std::size_t matrix(std::size_t rows, std::size_t columns, std::size_t first, std::size_t last,
                     bool work_space = false) {
    return add_matrix(made_.plan, rows, columns, first, last, work_space);
  }
  std::size_t like(std::size_t tensor, std::size_t first, std::size_t last, bool work_space = false) {
    const auto model = made_.plan.tensors[tensor];
    const auto t = matrix(model.channels, model.columns, first, last, work_space);
    made_.plan.tensors[t].image = model.image;
    return t;
  }
  void keep(std::size_t tensor, std::size_t time) {
    auto& last = made_.plan.tensors[tensor].span.last;
    last = std::max(last, time);
  }

  void forward(std::size_t s) {
    const Step& step = made_.plan.steps[s];
    auto& own = made_.steps[s];
    if (step.work == Work::leave) own.losses = made_.leaves++ * made_.plan.batch * loss_slices;
    if (step.work != Work::layer) return;
    const Layer& layer = layer_of(s);
    for (const auto t : step.inputs) {
      const auto& maker = made_.plan.steps[maker_[t]];
      workload::refuse_if(maker.work == Work::layer && layer_of(maker_[t]).kind == LayerKind::softmax,
                          "training supports a softmax only as the last layer: end the network with it");
    }
    if (!layer.normalize) return;
    const auto out = made_.plan.tensors[step.output];
    own.sums = like(step.output, s, time_back(s));
    own.statistics = matrix(2, out.channels, s, time_back(s));
    own.forward_slices = matrix(2, out.channels * slices_of(out.columns), s, s);
  }

  GivenGradient give(std::size_t tensor, std::size_t time) {
    if (made_.plan.steps[maker_[tensor]].work == Work::enter) return {};
    auto& gradient = made_.gradients[tensor];
    const bool adds = gradient != no_tensor;
    if (!adds) gradient = like(tensor, time, time_back(maker_[tensor]));
    return {tensor, adds};
  }

  void back(std::size_t s) {
    const Step step = made_.plan.steps[s];
    auto& own = made_.steps[s];
    const auto now = time_back(s);
    if (step.work == Work::enter) return;
    if (step.work == Work::leave) {
      const auto made = step.inputs[0], maker = maker_[made];
      const auto& by = made_.plan.steps[maker];
      own.learns = true;
      own.given.push_back(
          give(by.work == Work::layer && layer_of(maker).kind == LayerKind::softmax ? by.inputs[0] : made, now));
      keep(made, now);
      return;
    }
    if (made_.gradients[step.output] == no_tensor) return;  // no later step needs it, or the step is a softmax
    own.learns = true;
    keep(step.output, now);
    for (const auto t : step.inputs) {
      own.given.push_back(give(t, now));
      keep(t, now);
    }
    if (step.added != no_tensor) own.given.push_back(give(step.added, now));
    if (layer_of(s).has_weights()) products(s, now);
  }

  void products(std::size_t s, std::size_t now) {
    const Step& step = made_.plan.steps[s];
    auto& own = made_.steps[s];
    const Layer& layer = layer_of(s);
    const auto out = made_.plan.tensors[step.output], in = made_.plan.tensors[step.inputs[0]];
    // An update launches one thread per number, and rounds up to whole blocks for each array.
    workload::refuse_if(
        layer.out.channels * (weights_pitch(layer) + 2) + 3 * layer_threads > std::numeric_limits<unsigned>::max(),
        "a layer has more weights than its update can index: use fewer outputs");
    own.slopes = like(step.output, now, now, true);
    own.back_slices = matrix(2, out.channels * slices_of(out.columns), now, now, true);
    own.weights = {.m = layer.out.channels, .n = layer.depth(), .k = out.columns, .most_parts = 256};
    choose_tiles(own.weights, {});
    if (own.weights.parts > 1)
      own.weights_partial = matrix(1, own.weights.parts * own.weights.m * weights_pitch(layer), now, now, true);
    if (own.given[0].of == no_tensor) return;
    workload::refuse_if(layer.window.height * layer.window.width * out.channels * out.channels >= std::size_t{1} << 32,
                        "a layer has more weights than its backward pass can index: use fewer outputs");
    own.spread = spread_of(layer);
    own.data = {.m = layer.in.channels, .n = in.columns};
    own.data.is_plain = step.product.is_plain;
    for (unsigned c = 0; c < own.spread.classes(); ++c) {
      own.data.classes.push_back({own.spread.columns(c), own.spread.rows(c)});
      own.data.k = std::max(own.data.k, own.data.classes.back().k);
    }
    choose_tiles(own.data, {});
    own.turned = matrix(own.data.m, own.spread.weights(own.spread.classes()), now, now, true);
    if (own.data.parts > 1) own.data_partial = matrix(own.data.parts * own.data.m, own.data.n, now, now, true);
  }

  SpreadShape spread_of(const Layer& layer) const {
    const auto& w = layer.window;
    // If there is only one window along a direction, each place is a separate class.
    const auto axis = [&](std::size_t window, std::size_t plane, std::size_t results) {
      return SpreadAxis{count(window), count(plane), count(results == 1 ? window : w.stride), count(w.before)};
    };
    const SpreadAxis across = axis(w.width, layer.in.width, layer.out.width);
    return {.in = {.channels = count(layer.out.channels),
                   .height = count(layer.out.height),
                   .width = count(layer.out.width)},
            .down = axis(w.height, layer.in.height, layer.out.height),
            .across = across,
            .images = count(made_.plan.batch),
            .per_channel = reciprocal(layer.out.channels),
            .per_row = reciprocal(std::max(1u, across.places(across.stride))),
            .per_longer_row = reciprocal(across.places(across.stride) + 1)};
  }

  TrainingPlan made_;
  std::vector<std::size_t> maker_;  // step that computes each tensor
};

inline TrainingPlan make_training_plan(NetworkDescription network, std::size_t batch) {
  return TrainingPlanner(make_plan(std::move(network), {.batch = batch, .fuses = false})).make();
}

}  // namespace isthmus::apps
