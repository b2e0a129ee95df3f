#pragma once

// Steps of training: forward, backward, and the update of learned numbers (stochastic gradient descent).

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/network_training/kernels.hpp"
#include "apps/network_training/plan.hpp"

namespace isthmus::apps {

constexpr float learning_rate = 0.01f, momentum = 0.9f, weight_decay = 0.0005f;

/// Plan of training with its weights, its memory and the names of its launches.
struct TrainingNetwork {
  enum What { statistics, normalized, loss, slopes, sums, turned, data, data_sum, weights, weights_sum, back, learned };
  static constexpr std::array whats = {
      "forward: statistics",    "forward: normalize",          "forward: loss", "back: slopes",
      "back: sums of channels", "back: turned weights",        "back: data",    "back: data, sum of parts",
      "back: weights",          "back: weights, sum of parts", "back",          "update"};

  TrainingPlan plan;  ///< `plan.plan` is empty: it has been moved to `network.plan`
  Network network;
  std::vector<std::array<std::string, whats.size()>> names{};

  TrainingNetwork(TrainingPlan plan_, MemoryPlan memory, std::uint64_t seed)
      : plan(std::move(plan_)), network(std::move(plan.plan), std::move(memory), seed) {
    for (const auto& step : network.plan.steps) {
      auto& own = names.emplace_back();
      for (std::size_t w = 0; w < own.size(); ++w) own[w] = numbered(step.layer, whats[w]);
    }
  }

  /// Returns target i; targets are stored image by image. For a softmax, one class has target 1; other results have
  /// targets from 0 to 1.
  float target(std::uint64_t seed, std::size_t i) const {
    const auto& own = network.plan;
    const std::size_t image = i / own.results, r = i % own.results;
    for (std::size_t s = 0; s < own.steps.size(); ++s) {
      const Step& step = own.steps[s];
      if (step.work != Work::leave) continue;
      const auto size = own.tensors[step.inputs[0]].image.size();
      if (r < step.result || r >= step.result + size) continue;
      if (ends_in_softmax(s)) return r - step.result == workload::hash(seed, 1, image) % size ? 1 : 0;
    }
    return workload::uniform(seed, 2, 0, 1)(i);
  }
  /// Returns whether the results that step s copies out were computed by a softmax.
  bool ends_in_softmax(std::size_t s) const {
    return plan.steps[s].given.at(0).of != network.plan.steps[s].inputs[0] && plan.steps[s].given[0].of != no_tensor;
  }
  /// Returns the scale of the loss gradient: 1 / images; for squared errors also 1 / outputs.
  float factor(std::size_t s) const {
    const auto size = ends_in_softmax(s) ? 1 : network.plan.tensors[network.plan.steps[s].inputs[0]].image.size();
    return 1 / static_cast<float>(network.plan.batch * size);
  }
};

/// Addresses of the memory of a network in training while it runs.
struct TrainingAddresses {
  Addresses forward{};
  std::vector<float*> values{}, gradients{}, velocities{};  ///< one per array of parameters
  const float* targets = nullptr;
  float* losses = nullptr;  ///< one per step of training
};

template <class Launcher>
class Training {
 public:
  Training(const TrainingNetwork& training, const TrainingAddresses& at, TileStaging staging, Launcher& launcher)
      : training_(training),
        plan_(training.network.plan),
        at_(at),
        staging_(staging),
        launcher_(launcher),
        forward_(training.network, at.forward, staging, launcher) {}

  /// Queues one step of training, which writes its loss to element `number`.
  void queue(std::size_t number) {
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) forward(s);
    add_losses_to(number);
    for (std::size_t s = plan_.steps.size(); s-- > 0;) back(s);
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) update(s);
  }

  void forward(std::size_t s) {
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    if (step.work == Work::leave) {
      const double bytes = forward_.bytes_of(plan_.tensors[step.inputs[0]]);
      return launcher_.launch(device::Kernel{name(s, TrainingNetwork::loss), find_losses},
                              {.grid = {count(plan_.batch), loss_slices}, .block = layer_threads},
                              {.bytes_read = 2 * bytes, .bytes_written = 0, .flops = bytes}, planes(step.inputs[0]),
                              targets(s), losses() + own.losses);
    }
    if (own.sums == no_tensor) return forward_.queue(s);
    const Tensor& out = plan_.tensors[step.output];
    float* to = address(own.sums);
    forward_.queue_product(
        s, {.height = count(out.image.height), .width = count(out.image.width), .out = to, .pitch = out.pitch});
    const auto sums = slices(own.forward_slices, out);
    sum(s, TrainingNetwork::statistics, sum_moments, sums, out, 1, to, out.pitch);
    launcher_.launch(device::Kernel{name(s, TrainingNetwork::statistics), find_statistics}, line(out.channels), {},
                     sums, statistics_of(s), parameter(s, Parameter::means), parameter(s, Parameter::variances));
    elementwise(s, TrainingNetwork::normalized, normalize, step.output, 1, to, statistics_of(s),
                parameter(s, Parameter::scales), parameter(s, Parameter::biases), activation(s), count(out.columns),
                address(step.output), out.pitch);
  }

  void add_losses_to(std::size_t number) {
    launcher_.launch(device::Kernel{"loss", add_losses}, {.grid = 1, .block = layer_threads}, {}, losses(),
                     count(training_.plan.leaves * plan_.batch * loss_slices), at_.losses + number);
  }

  void back(std::size_t s) {
    using enum TrainingNetwork::What;
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    if (!own.learns) return;
    if (step.work == Work::leave) {
      if (own.given[0].of != no_tensor)
        elementwise(s, TrainingNetwork::back, loss_back, own.given[0].of, 2, planes(step.inputs[0]), targets(s),
                    columns(own.given[0].of), to(own.given[0]));
      return;
    }
    const Layer& layer = plan_.network.layers[step.layer];
    if (layer.has_weights()) return products_back(s, layer);
    if (layer.kind == LayerKind::shortcut && layer.window.stride == 1 && own.given[0].of != no_tensor &&
        own.given[1].of != no_tensor && plan_.tensors[step.inputs[0]].channels == plan_.tensors[step.added].channels) {
      return launch_both(s, own);
    }
    unsigned first = 0;
    for (std::size_t g = 0; g < own.given.size(); ++g) {
      const auto& given = own.given[g];
      const auto from = g < step.inputs.size() ? step.inputs[g] : step.added;
      const auto channels = count(plan_.tensors[from].channels);
      if (given.of != no_tensor) give(s, layer, given, g, first);
      first += channels;
    }
  }

  void update(std::size_t s) {
    const Step& step = plan_.steps[s];
    if (!training_.plan.steps[s].learns || step.work != Work::layer) return;
    const Layer& layer = plan_.network.layers[step.layer];
    if (!layer.has_weights()) return;
    const auto array = [&](Parameter what, float decay) {
      const auto i = training_.network.parameters->index_of(step.layer, what);
      return Learned{at_.values[i], at_.velocities[i], at_.gradients[i],
                     count(training_.network.parameters->arrays()[i].count), decay};
    };
    const LearnedArrays all{array(Parameter::weights, weight_decay), array(Parameter::biases, 0),
                            layer.normalize ? array(Parameter::scales, 0) : Learned{}};
    const double bytes = 4.0 * all.weights.count;
    launcher_.launch(device::Kernel{name(s, TrainingNetwork::learned), learn},
                     line(all.weights.threads() + all.biases.threads() + all.scales.threads()),
                     {.bytes_read = 3 * bytes, .bytes_written = 2 * bytes, .flops = bytes * 6 / 4}, all, learning_rate,
                     momentum);
  }

  float* address(std::size_t tensor) const { return forward_.address(tensor); }

 private:
  const char* name(std::size_t s, TrainingNetwork::What what) const { return training_.names[s][what].c_str(); }
  Planes planes(std::size_t t) const { return forward_.planes(t); }
  unsigned columns(std::size_t t) const { return count(plan_.tensors[t].columns); }
  float* losses() const { return address(training_.plan.losses); }
  float* parameter(std::size_t s, Parameter what) const {
    return at_.values[training_.network.parameters->index_of(plan_.steps[s].layer, what)];
  }
  float* gradient(std::size_t s, Parameter what) const {
    return at_.gradients[training_.network.parameters->index_of(plan_.steps[s].layer, what)];
  }
  unsigned activation(std::size_t s) const {
    return static_cast<unsigned>(plan_.network.layers[plan_.steps[s].layer].activation);
  }
  Planes gradient_of(std::size_t t) const { return planes(training_.plan.gradients[t]); }
  Gradient to(const GivenGradient& given) const {
    const auto t = training_.plan.gradients[given.of];
    return {address(t), plan_.tensors[t].pitch, given.adds};
  }
  Result result(std::size_t s) const {
    const auto out = plan_.steps[s].output;
    return {planes(out), gradient_of(out), activation(s)};
  }
  Statistics statistics_of(std::size_t s) const {
    const auto t = training_.plan.steps[s].statistics;
    return t == no_tensor ? Statistics{} : Statistics{address(t), count(plan_.tensors[plan_.steps[s].output].channels)};
  }
  Targets targets(std::size_t s) const {
    return {at_.targets + plan_.steps[s].result, plan_.results, training_.ends_in_softmax(s), training_.factor(s)};
  }
  ChannelSums slices(std::size_t t, const Tensor& of) const {
    const unsigned slices = slices_of(of.columns), channels = count(of.channels);
    return {address(t), channels, slices, (count(of.columns) + slices - 1) / slices, count(of.columns)};
  }
  static device::LaunchShape line(std::size_t threads) {
    return {.grid = (count(threads) + layer_threads - 1) / layer_threads, .block = layer_threads};
  }
  template <class... P, class... A>
  void sum(std::size_t s, TrainingNetwork::What what, void (*kernel)(P...), const ChannelSums& sums, const Tensor& of,
           double reads, A&&... arguments) {
    const double bytes = reads * forward_.bytes_of(of);
    launcher_.launch(
        device::Kernel{name(s, what), kernel}, {.grid = {sums.slices, sums.channels}, .block = layer_threads},
        {.bytes_read = bytes, .bytes_written = 0, .flops = bytes / 4}, std::forward<A>(arguments)..., sums);
  }
  /// Launches one thread per number of a tensor; a thread reads about `reads` numbers.
  template <class... P, class... A>
  void elementwise(std::size_t s, TrainingNetwork::What what, void (*kernel)(P...), std::size_t tensor, double reads,
                   A&&... arguments) {
    const Tensor& of = plan_.tensors[tensor];
    const double bytes = forward_.bytes_of(of);
    launcher_.launch(device::Kernel{name(s, what), kernel}, forward_.grid_of(of),
                     {.bytes_read = reads * bytes, .bytes_written = bytes, .flops = reads * bytes / 4},
                     std::forward<A>(arguments)...);
  }

  void launch_both(std::size_t s, const TrainingStep& own) {
    const Tensor& of = plan_.tensors[own.given[0].of];
    const double bytes = forward_.bytes_of(of);
    launcher_.launch(device::Kernel{name(s, TrainingNetwork::back), shortcut_back_to_both}, forward_.grid_of(of),
                     {.bytes_read = result(s).reads() * bytes, .bytes_written = 2 * bytes, .flops = bytes / 4},
                     result(s), count(of.columns), to(own.given[0]), to(own.given[1]));
  }
  /// Queues the gradient of input `g` of a layer without weights; `first` is the number of channels in earlier inputs.
  void give(std::size_t s, const Layer& layer, const GivenGradient& given, std::size_t g, unsigned first) {
    const Step& step = plan_.steps[s];
    const auto n = columns(given.of);
    const Planes from = gradient_of(step.output);
    const Tensor& in = plan_.tensors[given.of];
    const auto there = [&](auto* kernel, auto&&... arguments) {
      elementwise(s, TrainingNetwork::back, kernel, given.of, 2, arguments..., n, to(given));
    };
    switch (layer.kind) {
      case LayerKind::maxpool:
        return there(pool_largest_back, forward_.window_of(step.inputs[0], layer), from);
      case LayerKind::avgpool:
        return there(pool_average_back, from, count(layer.in.plane()));
      case LayerKind::shortcut:
        return there(shortcut_back, result(s), g == 0 ? 1u : count(layer.window.stride), count(in.image.height),
                     count(in.image.width));
      case LayerKind::route:
        return there(split, from, first);
      case LayerKind::upsample:
        return there(enlarge_back, from, count(layer.window.stride));
      case LayerKind::yolo:
        return there(find_boxes_back, result(s), count(layer.entries));
      default:
        return;
    }
  }

  void products_back(std::size_t s, const Layer& layer) {
    using enum TrainingNetwork::What;
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    const Tensor &out = plan_.tensors[step.output], &slope = plan_.tensors[own.slopes];
    const float* raw = layer.normalize ? address(own.sums) : nullptr;
    const auto channel_sums = slices(own.back_slices, out);
    float* of_scales = layer.normalize ? gradient(s, Parameter::scales) : nullptr;
    const double reads = result(s).reads();
    sum(s, sums, sum_gradients, channel_sums, out, raw == nullptr ? reads : reads + 1,
        SumOfGradients{result(s), raw, out.pitch, statistics_of(s)});
    launcher_.launch(device::Kernel{name(s, sums), add_slices}, line(out.channels), {}, channel_sums,
                     gradient(s, Parameter::biases), of_scales);
    auto grid = forward_.grid_of(slope);
    grid.grid.x = (columns(own.slopes) + 3 + layer_threads - 1) / layer_threads;
    const double bytes = forward_.bytes_of(out), bytes_in = forward_.bytes_of(plan_.tensors[step.inputs[0]]);
    launcher_.launch(
        device::Kernel{name(s, slopes), find_slopes}, grid,
        {.bytes_read = (raw == nullptr ? reads : reads + 1) * bytes, .bytes_written = bytes, .flops = bytes / 2},
        result(s),
        Normalization{raw, out.pitch, statistics_of(s), layer.normalize ? parameter(s, Parameter::scales) : nullptr,
                      gradient(s, Parameter::biases), of_scales},
        count(out.columns), address(own.slopes), slope.pitch);
    const auto optional = [&](std::size_t t) { return t == no_tensor ? nullptr : address(t); };
    const double bytes_of_weights = 4.0 * static_cast<double>(own.weights.m * own.weights.n);
    launch_product(
        launcher_, staging_,
        {.product = own.weights,
         .name = name(s, weights),
         .name_of_sum = name(s, weights_sum),
         .weights = address(own.slopes),
         .weights_pitch = slope.pitch,
         .partial = optional(own.weights_partial),
         // The sum includes the padding of weights, which is zero in all parts.
         .columns_of_sum = count(weights_pitch(layer)),
         .bytes_read = bytes + bytes_in,
         .bytes_written = bytes_of_weights},
        Epilogue{.height = 1, .width = 1, .out = gradient(s, Parameter::weights), .pitch = weights_pitch(layer)},
        TransposedShape{forward_.window_of(step.inputs[0], layer)});
    if (own.given[0].of == no_tensor) return;
    const auto to_input = to(own.given[0]);
    const Tensor& turned_to = plan_.tensors[own.turned];
    SpreadShape spread = own.spread;
    spread.in = planes(own.slopes);
    const auto tiles = [](std::size_t channels) { return count((channels + turned_tile - 1) / turned_tile); };
    launcher_.launch(device::Kernel{name(s, turned), turn_weights},
                     {.grid = {tiles(layer.out.channels) * count(layer.window.height * layer.window.width),
                               tiles(layer.in.channels)},
                      .block = layer_threads},
                     {.bytes_read = bytes_of_weights, .bytes_written = bytes_of_weights},
                     parameter(s, Parameter::weights), weights_pitch(layer), count(layer.in.channels), spread,
                     address(own.turned), turned_to.pitch);
    Epilogue epilogue{.height = count(layer.in.height),
                      .width = count(layer.in.width),
                      .out = to_input.values,
                      .pitch = to_input.pitch};
    if (to_input.adds) epilogue.addend = {gradient_of(own.given[0].of), 1, 0};
    const ProductCall call{.product = own.data,
                           .name = name(s, data),
                           .name_of_sum = name(s, data_sum),
                           .weights = address(own.turned),
                           .weights_pitch = turned_to.pitch,
                           .partial = optional(own.data_partial),
                           .columns_of_sum = count(own.data.n),
                           .bytes_read = bytes + bytes_of_weights,
                           .bytes_written = bytes_in};
    if (own.data.is_plain)
      return launch_product(launcher_, staging_, call, epilogue, PlainMatrix{address(own.slopes), slope.pitch});
    launch_product(launcher_, staging_, call, epilogue, spread);
  }

  const TrainingNetwork& training_;
  const Plan& plan_;
  const TrainingAddresses& at_;
  const TileStaging staging_;
  Launcher& launcher_;
  Forward<Launcher> forward_;
};

}  // namespace isthmus::apps
