#pragma once

// Checks of training. All training steps run again, the first of them layer by layer. For each layer, forward and
// backward, the host recomputes some numbers in double from the inputs that the layer had on the device.

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "apps/network/check.hpp"
#include "apps/network_training/training.hpp"

namespace isthmus::apps {

/// Sum of many numbers in double, and the largest error that the same sum may have in fp32.
class SumOfNumbers {
 public:
  void add(double x) {
    sum_ += x;
    squares_ += x * x;
    ++count_;
  }
  ExpectedNumber expected() const {
    return {sum_, roundings_of(count_) * LayerCheck::unit * (std::sqrt(squares_) + std::abs(sum_))};
  }

 private:
  double sum_ = 0, squares_ = 0, count_ = 0;
};

class TrainingCheck : public LayerCheck {
 public:
  TrainingCheck(const TrainingNetwork& training, const TrainingAddresses& at, TileStaging staging, std::uint64_t seed,
                device::Stream& stream)
      : LayerCheck(training.network, seed),
        training_(training),
        at_(at),
        stream_(stream),
        launcher_{stream},
        queue_(training, at, staging, launcher_) {}

  /// Runs the first step of training, starting from the generated weights. Returns the largest error in units of the
  /// bounds.
  double watch() {
    const auto& steps = plan_.steps;
    double error = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      queue_.forward(s);
      stream_.synchronize();
      error = workload::worst(error, error_forward(s));
    }
    queue_.add_losses_to(0);
    stream_.synchronize();
    error = workload::worst(error, error_of_the_loss());
    for (auto& made : made_) made = {};
    for (std::size_t s = steps.size(); s-- > 0;) {
      if (training_.plan.steps[s].learns) error = workload::worst(error, error_back(s));
      for (auto& made : made_) made = {};
    }
    for (std::size_t s = 0; s < steps.size(); ++s) error = workload::worst(error, error_of_update(s));
    return error;
  }

  /// Runs a step of training without checking it; the step writes its loss to element `number`.
  void go_on(std::size_t number) { queue_.queue(number); }

 private:
  static std::vector<float> copied(const float* from, std::size_t floats) {
    std::vector<float> values(floats);
    device::copy(values.data(), from, floats * sizeof(float));
    return values;
  }
  void fetch(std::size_t t) {
    if (t != no_tensor) keep(t, copied(queue_.address(t), plan_.tensors[t].span.floats));
  }
  const Layer& layer_of(std::size_t s) const { return plan_.network.layers[plan_.steps[s].layer]; }
  double of_channel(std::size_t s, Parameter what, std::size_t c) const {
    return parameters_.of_channel(plan_.steps[s].layer, what, c);
  }
  std::size_t array(std::size_t s, Parameter what) const { return parameters_.index_of(plan_.steps[s].layer, what); }
  std::vector<float> gradients(std::size_t s, Parameter what) const {
    const auto a = array(s, what);
    return copied(at_.gradients[a], parameters_.arrays()[a].count);
  }
  double mean(std::size_t s, std::size_t c) const { return made_[training_.plan.steps[s].statistics][c]; }
  double inverse(std::size_t s, std::size_t c) const {
    const auto t = training_.plan.steps[s].statistics;
    return made_[t][plan_.tensors[plan_.steps[s].output].channels + c];
  }
  /// Returns the channels to check: all if there are at most 32, otherwise about 17 of them.
  static std::vector<std::size_t> channels_of(std::size_t channels) {
    std::vector<std::size_t> some;
    for (std::size_t c = 0; c < channels;
         c += channels <= 32 || c + 1 == channels ? 1 : std::min(channels / 16, channels - 1 - c))
      some.push_back(c);
    return some;
  }
  template <class Visit>
  void for_channel(std::size_t t, std::size_t c, Visit visit) const {
    const auto& image = plan_.tensors[t].image;
    for (std::size_t n = 0; n < plan_.tensors[t].columns; ++n) {
      const std::size_t in = n % image.plane();
      visit(Spot{c, n / image.plane(), in / image.width, in % image.width});
    }
  }
  template <class Error>
  double worst_spot(const Volume& volume, const Error& error) const {
    const auto spots = spots_of(volume);
    return worst_of(spots.size(), 4, [&](std::size_t i) { return error(spots[i]); });
  }

  // --- forward ---

  double error_forward(std::size_t s) {
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    if (step.work == Work::leave) return error_of_losses(s);
    fetch(step.output);
    if (own.sums == no_tensor) return error_of(step);
    fetch(own.sums);
    fetch(own.statistics);
    const auto& image = plan_.tensors[step.output].image;
    double error = worst_spot(image, [&](const Spot& at) { return in_bounds(value(own.sums, at), sum_of(step, at)); });
    error = workload::worst(error, error_of_statistics(s));
    return workload::worst(error, worst_spot(image, [&](const Spot& at) {
                             const double off = value(own.sums, at) - mean(s, at.channel),
                                          scale = of_channel(s, Parameter::scales, at.channel);
                             const double x = off * inverse(s, at.channel) * scale,
                                          bias = of_channel(s, Parameter::biases, at.channel);
                             const ExpectedNumber normalized{x + bias, unit * (4 * std::abs(x) + std::abs(x + bias))};
                             return in_bounds(value(step.output, at), activated(normalized, layer_of(s).activation));
                           }));
  }

  double error_of_statistics(std::size_t s) const {
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    const auto columns = static_cast<double>(plan_.tensors[step.output].columns);
    const auto channels = plan_.tensors[step.output].channels;
    const auto means = copied(at_.values[array(s, Parameter::means)], channels);
    const auto variances = copied(at_.values[array(s, Parameter::variances)], channels);
    const auto some = channels_of(channels);
    return worst_of(some.size(), 1, [&](std::size_t i) {
      const auto c = some[i];
      SumOfNumbers sum;
      for_channel(own.sums, c, [&](const Spot& at) { sum.add(value(own.sums, at)); });
      const auto all = sum.expected();
      const ExpectedNumber right_mean{all.value / columns, all.bound / columns};
      double squares = 0;
      for_channel(own.sums, c, [&](const Spot& at) {
        const double off = value(own.sums, at) - right_mean.value;
        squares += off * off;
      });
      // If the mean is wrong by its bound, the square of the bound is added to the variance.
      const double variance = squares / columns, relative = roundings_of(columns) * unit;
      const double off = relative * variance + right_mean.bound * right_mean.bound +
                         unit * std::sqrt(variance) * 8 * std::abs(right_mean.value);
      const double inverse_deviation = 1 / std::sqrt(variance + double{1e-6f});
      double error = in_bounds(mean(s, c), right_mean);
      error = workload::worst(
          error, in_bounds(inverse(s, c),
                           {inverse_deviation, inverse_deviation * (off / (variance + double{1e-6f}) + 4 * unit)}));
      const auto running = [](double before, double now, double bound) {
        return ExpectedNumber{double{0.99f} * before + double{0.01f} * now,
                              bound + 4 * LayerCheck::unit * (std::abs(before) + std::abs(now))};
      };
      error = workload::worst(
          error, in_bounds(means[c], running(of_channel(s, Parameter::means, c), right_mean.value, right_mean.bound)));
      return workload::worst(error,
                             in_bounds(variances[c], running(of_channel(s, Parameter::variances, c), variance, off)));
    });
  }

  double target(std::size_t s, const Spot& at) const {
    const Step& step = plan_.steps[s];
    const auto& image = plan_.tensors[step.inputs[0]].image;
    const auto in = (at.channel * image.height + at.row) * image.width + at.column;
    return training_.target(seed_, at.image * plan_.results + step.result + in);
  }

  double error_of_losses(std::size_t s) const {
    const auto made = plan_.steps[s].inputs[0];
    const auto& image = plan_.tensors[made].image;
    const auto losses =
        copied(queue_.address(training_.plan.losses) + training_.plan.steps[s].losses, plan_.batch * loss_slices);
    const bool entropy = training_.ends_in_softmax(s);
    return worst_of(plan_.batch, 1, [&](std::size_t b) {
      double sum = 0;
      for (std::size_t i = 0; i < image.size(); ++i) {
        const Spot at{i / image.plane(), b, i % image.plane() / image.width, i % image.width};
        const double x = value(made, at), right = target(s, at);
        sum += entropy ? (right == 0 ? 0 : -right * std::log(std::max(x, 1e-30))) : (x - right) * (x - right) / 2;
      }
      const double factor = training_.factor(s);
      const double actual = std::accumulate(&losses[b * loss_slices], &losses[b * loss_slices] + loss_slices, 0.0);
      return in_bounds(
          actual, {factor * sum, factor * (roundings_of(static_cast<double>(image.size())) * unit * sum + 4 * unit)});
    });
  }
  double error_of_the_loss() const {
    SumOfNumbers sum;
    for (const float loss :
         copied(queue_.address(training_.plan.losses), training_.plan.leaves * plan_.batch * loss_slices))
      sum.add(loss);
    return in_bounds(copied(at_.losses, 1)[0], sum.expected());
  }

  // --- back ---

  double error_back(std::size_t s) {
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    std::map<std::size_t, std::vector<float>> before;  // one per tensor
    for (const auto& given : own.given) {
      if (given.of == no_tensor || before.contains(given.of)) continue;
      const auto t = training_.plan.gradients[given.of];
      before[given.of] = given.adds ? copied(queue_.address(t), plan_.tensors[t].span.floats) : std::vector<float>{};
    }
    for (const auto t : step.inputs) fetch(t);
    if (step.output != no_tensor) {
      fetch(step.output);
      fetch(training_.plan.gradients[step.output]);
    }
    fetch(own.sums);
    fetch(own.statistics);
    queue_.back(s);
    stream_.synchronize();
    fetch(own.slopes);
    double error = own.slopes == no_tensor ? 0 : error_of_weights(s);
    for (const auto& one : before) {
      const auto tensor = one.first;
      const auto& earlier = one.second;
      const auto t = training_.plan.gradients[tensor];
      fetch(t);
      const auto made = made_[t];
      error = workload::worst(error, worst_spot(plan_.tensors[t].image, [&](const Spot& at) {
                                ExpectedNumber right{earlier.empty() ? 0 : double{earlier[place_of(t, at)]}};
                                for (std::size_t g = 0; g < own.given.size(); ++g) {
                                  if (own.given[g].of != tensor) continue;
                                  const auto more = contribution(s, g, at);
                                  right.bound += more.bound + 2 * unit * (std::abs(right.value) + std::abs(more.value));
                                  right.value += more.value;
                                }
                                return in_bounds(made[place_of(t, at)], right);
                              }));
    }
    return error;
  }
  std::size_t place_of(std::size_t t, const Spot& at) const {
    const Tensor& tensor = plan_.tensors[t];
    return at.channel * tensor.pitch + (at.image * tensor.image.height + at.row) * tensor.image.width + at.column;
  }

  /// Returns the expected gradient of the activation's input in step s.
  ExpectedNumber before_activation(std::size_t s, const Spot& at, Activation activation) const {
    const auto out = plan_.steps[s].output;
    const double x = value(out, at), gradient = value(training_.plan.gradients[out], at);
    double steep = 1;
    if (activation == Activation::relu) steep = x > 0 ? 1 : 0;
    if (activation == Activation::leaky) steep = x > 0 ? 1 : double{0.1f};
    if (activation == Activation::logistic) steep = x * (1 - x);
    return {gradient * steep, 4 * unit * std::abs(gradient * steep) +
                                  unit * std::abs(gradient * x) * (activation == Activation::logistic ? 1 : 0)};
  }

  double error_of_weights(std::size_t s) {
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    const Layer& layer = layer_of(s);
    const auto of_biases = gradients(s, Parameter::biases), of_weights = gradients(s, Parameter::weights);
    const auto of_scales = layer.normalize ? gradients(s, Parameter::scales) : std::vector<float>{};
    const auto some = channels_of(layer.out.channels);
    double error = worst_of(some.size(), 1, [&](std::size_t i) {
      const auto c = some[i];
      SumOfNumbers biases, scales;
      for_channel(step.output, c, [&](const Spot& at) {
        const double gradient = before_activation(s, at, layer.activation).value;
        biases.add(gradient);
        if (layer.normalize) scales.add(gradient * (value(own.sums, at) - mean(s, c)) * inverse(s, c));
      });
      const double off = in_bounds(of_biases[c], biases.expected());
      return layer.normalize ? workload::worst(off, in_bounds(of_scales[c], scales.expected())) : off;
    });
    const auto columns = static_cast<double>(plan_.tensors[step.output].columns);
    error = workload::worst(error, worst_spot(plan_.tensors[own.slopes].image, [&](const Spot& at) {
                              const auto c = at.channel;
                              auto slope = before_activation(s, at, layer.activation);
                              if (layer.normalize) {
                                const double x = (value(own.sums, at) - mean(s, c)) * inverse(s, c),
                                             by = of_biases[c] / columns;
                                const double scale = of_channel(s, Parameter::scales, c) * inverse(s, c),
                                             along = x * of_scales[c] / columns;
                                slope.bound += 8 * unit * (std::abs(slope.value) + std::abs(by) + std::abs(along));
                                slope = {scale * (slope.value - by - along), std::abs(scale) * slope.bound};
                              }
                              return in_bounds(value(own.slopes, at), slope);
                            }));
    const auto pitch = weights_pitch(layer);
    const std::size_t all = layer.out.channels * pitch, looked_at = std::min<std::size_t>(all, 256);
    return workload::worst(
        error, worst_of(looked_at, 1, [&](std::size_t i) {
          const auto at = i + 4 >= looked_at
                              ? all - (looked_at - i)
                              : (looked_at == all ? i : workload::hash(seed_, 3, i * 0x10001 + all) % all);
          const std::size_t m = at / pitch, k = at % pitch, place = k / layer.in.channels;
          if (k >= layer.depth()) return in_bounds(of_weights[at], {});  // padding stays zero
          SumOfNumbers sum;
          for_channel(own.slopes, m, [&](const Spot& spot) {
            const std::size_t row = spot.row * layer.window.stride + place / layer.window.width - layer.window.before;
            const std::size_t column =
                spot.column * layer.window.stride + place % layer.window.width - layer.window.before;
            const bool inside = row < layer.in.height && column < layer.in.width;
            sum.add(inside ? double{value(own.slopes, spot)} *
                                 value(step.inputs[0], {k % layer.in.channels, spot.image, row, column})
                           : 0);
          });
          return in_bounds(of_weights[at], sum.expected());
        }));
  }

  /// Calls visit(out, r, s) for each window of the layer that contains the number `at`, at its place (r, s).
  template <class Visit>
  static void for_windows(const Layer& layer, const Spot& at, Visit visit) {
    const auto& w = layer.window;
    for (std::size_t r = 0; r < w.height && r <= at.row + w.before; ++r) {
      for (std::size_t s = 0; s < w.width && s <= at.column + w.before; ++s) {
        const std::size_t row = at.row + w.before - r, column = at.column + w.before - s;
        if (row % w.stride != 0 || column % w.stride != 0) continue;
        const Spot out{at.channel, at.image, row / w.stride, column / w.stride};
        if (out.row < layer.out.height && out.column < layer.out.width) visit(out, r, s);
      }
    }
  }

  /// Returns the expected contribution of step s to the gradient of its input g.
  ExpectedNumber contribution(std::size_t s, std::size_t g, const Spot& at) const {
    const Step& step = plan_.steps[s];
    const auto& own = training_.plan.steps[s];
    const auto with_factor = [](double x, double factor) {
      return ExpectedNumber{x * factor, 4 * unit * std::abs(x * factor)};
    };
    if (step.work == Work::leave) return with_factor(value(step.inputs[0], at) - target(s, at), training_.factor(s));
    const Layer& layer = layer_of(s);
    const auto gradient = training_.plan.gradients[step.output];
    SumOfNumbers sum;
    switch (layer.kind) {
      case LayerKind::convolutional:
      case LayerKind::connected:
        for_windows(layer, at, [&](const Spot& out, std::size_t r, std::size_t column) {
          for (std::size_t m = 0; m < layer.out.channels; ++m)
            sum.add(double{parameters_.weight(step.layer, m, at.channel, r, column)} *
                    value(own.slopes, {m, out.image, out.row, out.column}));
        });
        return sum.expected();
      case LayerKind::maxpool:
        for_windows(layer, at, [&](const Spot& out, std::size_t r, std::size_t column) {
          float largest = -std::numeric_limits<float>::infinity();
          std::size_t first = 0;
          for_window(layer, out, [&](std::size_t y, std::size_t x, std::size_t to_y, std::size_t to_x) {
            const float here = value(step.inputs[0], {at.channel, at.image, y, x});
            if (here <= largest) return;
            largest = here;
            first = to_y * layer.window.width + to_x;
          });
          if (first == r * layer.window.width + column) sum.add(value(gradient, out));
        });
        return sum.expected();
      case LayerKind::avgpool:
        return with_factor(value(gradient, {at.channel, at.image, 0, 0}), 1 / static_cast<double>(layer.in.plane()));
      case LayerKind::shortcut: {
        const std::size_t stride = g == 0 ? 1 : layer.window.stride;
        const Spot out{at.channel, at.image, at.row / stride, at.column / stride};
        const bool was_added = at.channel < layer.out.channels && at.row % stride == 0 && at.column % stride == 0 &&
                               out.row < layer.out.height && out.column < layer.out.width;
        return was_added ? before_activation(s, out, layer.activation) : ExpectedNumber{};
      }
      case LayerKind::route: {
        std::size_t first = 0;
        for (std::size_t i = 0; i < g; ++i) first += plan_.tensors[step.inputs[i]].channels;
        return {value(gradient, {first + at.channel, at.image, at.row, at.column})};
      }
      case LayerKind::upsample: {
        const auto factor = layer.window.stride;
        for (std::size_t i = 0; i < factor * factor; ++i)
          sum.add(
              value(gradient, {at.channel, at.image, at.row * factor + i / factor, at.column * factor + i % factor}));
        return sum.expected();
      }
      case LayerKind::yolo: {
        const auto entry = at.channel % layer.entries;
        return before_activation(s, at, entry == 2 || entry == 3 ? Activation::linear : Activation::logistic);
      }
      case LayerKind::softmax:
        break;
    }
    return {};
  }

  // --- learning ---

  double error_of_update(std::size_t s) {
    if (!training_.plan.steps[s].learns || plan_.steps[s].work != Work::layer || !layer_of(s).has_weights()) return 0;
    std::vector<Parameter> whats = {Parameter::weights, Parameter::biases};
    if (layer_of(s).normalize) whats.push_back(Parameter::scales);
    struct Before {
      std::vector<float> values, velocities;
    };
    const auto now = [&](Parameter what) {
      const auto a = array(s, what), floats = parameters_.arrays()[a].count;
      return Before{copied(at_.values[a], floats), copied(at_.velocities[a], floats)};
    };
    std::vector<Before> before;
    for (const auto what : whats) {
      before.push_back(now(what));
      // Velocities of zero would hide errors in their update.
      for (std::size_t i = 0; i < before.back().velocities.size(); ++i)
        before.back().velocities[i] = before.back().values[i] / 16;
      device::copy(at_.velocities[array(s, what)], before.back().velocities.data(),
                   before.back().velocities.size() * sizeof(float));
    }
    queue_.update(s);
    stream_.synchronize();
    double error = 0;
    for (std::size_t w = 0; w < whats.size(); ++w) {
      const auto after = now(whats[w]);
      const auto slopes = gradients(s, whats[w]);
      const double decay = whats[w] == Parameter::weights ? double{weight_decay} : 0;
      error =
          workload::worst(error, worst_of(slopes.size(), 1 << 12, [&](std::size_t i) {
                            const double old = before[w].values[i], kept = double{momentum} * before[w].velocities[i];
                            const double velocity = kept + slopes[i] + decay * old;
                            const double size = std::abs(kept) + std::abs(slopes[i]) + std::abs(decay * old);
                            const double value = old - double{learning_rate} * velocity;
                            const double off = in_bounds(after.velocities[i], {velocity, 4 * unit * size});
                            return workload::worst(
                                off, in_bounds(after.values[i], {value, 2 * unit * (std::abs(old) + std::abs(value)) +
                                                                            8 * unit * double{learning_rate} * size}));
                          }));
    }
    return error;
  }

  const TrainingNetwork& training_;
  const TrainingAddresses& at_;
  device::Stream& stream_;
  PlainLauncher launcher_;
  Training<PlainLauncher> queue_;
};

/// Checks the first step of training, then runs all steps again from the beginning. Returns the largest error in units
/// of the bounds, or infinity if losses or weights are not bit-identical to the measured ones.
inline double check_training(const TrainingNetwork& training, const TrainingAddresses& at, TileStaging staging,
                             std::uint64_t seed, device::Stream& stream, std::span<const float> losses,
                             const std::vector<std::vector<float>>& learned) {
  const auto& parameters = *training.network.parameters;
  const auto& arrays = parameters.arrays();
  const auto begin = [&] {
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      std::vector<float> values(arrays[a].count);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = parameters(arrays[a], i);
      device::copy(at.values[a], values.data(), values.size() * sizeof(float));
      device::copy(at.velocities[a], std::vector<float>(values.size()).data(), values.size() * sizeof(float));
    }
  };
  TrainingCheck check(training, at, staging, seed, stream);
  begin();
  const double error = check.watch();
  begin();
  for (std::size_t step = 0; step < losses.size(); ++step) check.go_on(step);
  stream.synchronize();
  std::vector<float> again(losses.size());
  device::copy(again.data(), at.losses, again.size() * sizeof(float));
  bool same = std::memcmp(again.data(), losses.data(), again.size() * sizeof(float)) == 0;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    std::vector<float> values(arrays[a].count);
    device::copy(values.data(), at.values[a], values.size() * sizeof(float));
    const float* measured = learned.size() == arrays.size() ? learned[a].data() : learned[0].data() + arrays[a].offset;
    same = same && std::memcmp(values.data(), measured, values.size() * sizeof(float)) == 0;
  }
  return same ? error : std::numeric_limits<double>::infinity();
}

}  // namespace isthmus::apps
