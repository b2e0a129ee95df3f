#pragma once

// Whether a network's layers are right: each is done once more by the same plan in the same memory, and numbers of what
// it makes are recomputed on the host, in double, from what earlier layers had made.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "apps/checks.hpp"
#include "apps/network/forward.hpp"

namespace isthmus::apps {

/// What a number should be, and how far fp32 may be off.
struct ExpectedNumber {
  double value = 0, bound = 0;
};

/// How often a sum of `count` products is rounded by the largest amount, at worst: such errors have no sign of their
/// own, so that they add up as the root of how many they are.
inline double roundings_of(double count) {
  return 8 * std::sqrt(count) + 8;
}

class LayerCheck {
 public:
  static constexpr double unit = 0x1p-24;
  /// What a sum is off, at worst, whose factors are rounded or cut to eleven bits: each product by 2^-10 and less for
  /// either of them. Cut numbers are too small by half of that in the mean; about it there are ten standard deviations.
  static constexpr double of_tf32 = 4 * 0x1p-10;

  LayerCheck(const Network& network, std::uint64_t seed)
      : plan_(network.plan),
        parameters_(*network.parameters),
        library_(network.library.get()),
        seed_(seed),
        made_(plan_.tensors.size()) {}

  /// The tensor that a step made, as the device has it.
  void keep(std::size_t tensor, std::vector<float> values) { made_[tensor] = std::move(values); }
  /// Tensors that are wanted no more after a step.
  void forget(std::size_t step) {
    for (std::size_t t = 0; t < made_.size(); ++t) {
      if (plan_.tensors[t].span.last <= step) made_[t] = {};
    }
  }

  /// The largest error of a step, counted in bounds.
  double error_of(const Step& step) const {
    const auto spots = spots_of(plan_.tensors[step.output].image);
    return worst_of(spots.size(), 4, [&](std::size_t i) { return error(step, spots[i]); });
  }
  /// The same of a step that leaves, for all of its results.
  double error_of(const Step& step, std::span<const float> results) const {
    const auto& image = plan_.tensors[step.inputs[0]].image;
    return worst_of(plan_.batch * image.size(), 1 << 14, [&](std::size_t i) {
      const std::size_t b = i / image.size(), in = i % image.size(), c = in / image.plane();
      const Spot spot{c, b, in % image.plane() / image.width, in % image.width};
      const float expected = value(step.inputs[0], spot);
      return results[b * plan_.results + step.result + in] == expected ? 0.0 : std::numeric_limits<double>::infinity();
    });
  }

 protected:
  struct Spot {
    std::size_t channel, image, row, column;
  };

  /// All numbers of a small tensor; of a large one those of corners and edges in the first, middle and last channels,
  /// and others by chance.
  std::vector<Spot> spots_of(const Volume& volume) const {
    std::vector<Spot> spots;
    const std::size_t all = plan_.batch * volume.size();
    const auto spot = [&](std::size_t i) {
      const std::size_t in = i % volume.size();
      return Spot{in / volume.plane(), i / volume.size(), in % volume.plane() / volume.width, in % volume.width};
    };
    if (all <= 4096) {
      for (std::size_t i = 0; i < all; ++i) spots.push_back(spot(i));
      return spots;
    }
    const auto ends = [](std::size_t n) { return std::vector<std::size_t>{0, n / 2, n - 1}; };
    for (const auto c : ends(volume.channels)) {
      for (const auto b : {std::size_t{0}, plan_.batch - 1}) {
        for (const auto row : ends(volume.height)) {
          for (const auto column : ends(volume.width)) spots.push_back({c, b, row, column});
        }
      }
    }
    for (std::size_t i = 0; i < 128; ++i) spots.push_back(spot(workload::hash(seed_, 1, i * 0x10001 + all) % all));
    return spots;
  }

  float value(std::size_t t, const Spot& at) const {
    const Tensor& tensor = plan_.tensors[t];
    const auto& image = tensor.image;
    return made_[t][at.channel * tensor.pitch + at.image * image.plane() + at.row * image.width + at.column];
  }
  /// Calls visit(row, column, r, s) for the places of a window that lie inside.
  template <class Visit>
  static void for_window(const Layer& layer, const Spot& at, Visit visit) {
    const auto& w = layer.window;
    for (std::size_t r = 0; r < w.height; ++r) {
      const std::size_t row = at.row * w.stride + r - w.before;  // beyond all where it is before the first
      if (row >= layer.in.height) continue;
      for (std::size_t s = 0; s < w.width; ++s) {
        const std::size_t column = at.column * w.stride + s - w.before;
        if (column < layer.in.width) visit(row, column, r, s);
      }
    }
  }

  static ExpectedNumber activated(ExpectedNumber x, Activation activation) {
    switch (activation) {
      case Activation::relu:
        x.value = std::max(x.value, 0.0);
        break;
      case Activation::leaky:
        if (x.value < 0) x.value *= double{0.1f};
        x.bound += unit * std::abs(x.value);
        break;
      case Activation::logistic:
        x.value = 1 / (1 + std::exp(-x.value));
        x.bound = x.bound / 4 + 8 * unit;
        break;
      case Activation::linear:
        break;
    }
    return x;
  }
  ExpectedNumber with_shortcut(ExpectedNumber x, const Step& step, const Layer& shortcut, const Spot& at) const {
    if (at.channel < plan_.tensors[step.added].channels) {
      const auto stride = shortcut.window.stride;
      const double other = value(step.added, {at.channel, at.image, at.row * stride, at.column * stride});
      x.bound += 2 * unit * (std::abs(x.value) + std::abs(other));
      x.value += other;
    }
    return activated(x, shortcut.activation);
  }

  /// A layer's sum of products.
  ExpectedNumber sum_of(const Step& step, const Spot& at) const {
    const auto l = step.layer;
    const Layer& layer = plan_.network.layers[l];
    const auto* chosen = step.library ? &library_->chosen(step.library->number) : nullptr;
    double sum = 0, squares = 0;
    for_window(layer, at, [&](std::size_t row, std::size_t column, std::size_t r, std::size_t s) {
      for (std::size_t c = 0; c < layer.in.channels; ++c) {
        const double term =
            double{parameters_.weight(l, at.channel, c, r, s)} * value(step.inputs[0], {c, at.image, row, column});
        sum += term;
        squares += term * term;
      }
    });
    const double size = chosen != nullptr && chosen->transforms
                            ? norm_of_image(step.inputs[0], at.image) * norm_of_filter(l, at.channel)
                            : std::sqrt(squares) + std::abs(sum);
    const double rounded = chosen != nullptr && chosen->tf32 ? of_tf32 : 0;
    return {sum, (roundings_of(static_cast<double>(layer.depth())) * unit + rounded) * size};
  }

  // A transform adds up numbers outside of a window, too, before it takes them away again.
  double norm_of_image(std::size_t t, std::size_t b) const {
    const auto& image = plan_.tensors[t].image;
    double squares = 0;
    for (std::size_t c = 0; c < image.channels; ++c) {
      const float* plane = made_[t].data() + c * plan_.tensors[t].pitch + b * image.plane();
      for (std::size_t i = 0; i < image.plane(); ++i) squares += double{plane[i]} * plane[i];
    }
    return std::sqrt(squares);
  }
  double norm_of_filter(std::size_t l, std::size_t m) const {
    const Layer& layer = plan_.network.layers[l];
    double squares = 0;
    for (std::size_t i = 0; i < layer.depth(); ++i) {
      const double weight = parameters_.weight(l, m * layer.depth() + i);
      squares += weight * weight;
    }
    return std::sqrt(squares);
  }

  ExpectedNumber product(const Step& step, const Spot& at) const {
    const auto l = step.layer;
    const Layer& layer = plan_.network.layers[l];
    ExpectedNumber x = sum_of(step, at);
    const auto of_channel = [&](Parameter what) { return double{parameters_.of_channel(l, what, at.channel)}; };
    if (layer.normalize) {
      const double factor = of_channel(Parameter::scales) / std::sqrt(of_channel(Parameter::variances) + double{1e-6f});
      const double mean = of_channel(Parameter::means);
      x = {factor * (x.value - mean), (x.bound + 8 * unit * (std::abs(x.value) + std::abs(mean))) * std::abs(factor)};
    }
    const double bias = of_channel(Parameter::biases);
    x.bound += 2 * unit * (std::abs(x.value) + std::abs(bias));
    x.value += bias;
    x = activated(x, layer.activation);
    return step.shortcut ? with_shortcut(x, step, plan_.network.layers[*step.shortcut], at) : x;
  }

  ExpectedNumber softened(const Step& step, const Spot& at) const {
    const auto& image = plan_.tensors[step.inputs[0]].image;
    const auto for_all = [&](auto visit) {
      for (std::size_t i = 0; i < image.size(); ++i) {
        const std::size_t in = i % image.plane();
        visit(double{value(step.inputs[0], {i / image.plane(), at.image, in / image.width, in % image.width})});
      }
    };
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for_all([&](double x) { largest = std::max(largest, x); });
    for_all([&](double x) { sum += std::exp(x - largest); });
    const double distance = value(step.inputs[0], at) - largest, expected = std::exp(distance) / sum;
    // The exponent is rounded, and the smallest numbers have fewer digits.
    return {expected,
            unit * (roundings_of(static_cast<double>(image.size())) + 4 * std::abs(distance)) * expected + 1e-37};
  }

  ExpectedNumber expected(const Step& step, const Spot& at) const {
    const auto& image = plan_.tensors[step.output].image;
    if (step.work == Work::enter)
      return {Network::image_value(
          seed_, ((at.image * image.channels + at.channel) * image.height + at.row) * image.width + at.column)};
    const Layer& layer = plan_.network.layers[step.layer];
    switch (layer.kind) {
      case LayerKind::convolutional:
      case LayerKind::connected:
        return product(step, at);
      case LayerKind::maxpool: {
        double largest = -std::numeric_limits<double>::infinity();
        for_window(layer, at, [&](std::size_t row, std::size_t column, std::size_t, std::size_t) {
          largest = std::max(largest, double{value(step.inputs[0], {at.channel, at.image, row, column})});
        });
        return {largest};
      }
      case LayerKind::avgpool: {
        double sum = 0, size = 0;
        for (std::size_t i = 0; i < layer.in.plane(); ++i) {
          const double x = value(step.inputs[0], {at.channel, at.image, i / layer.in.width, i % layer.in.width});
          sum += x;
          size += std::abs(x);
        }
        const auto plane = static_cast<double>(layer.in.plane());
        return {sum / plane, roundings_of(plane) * unit * size / plane};
      }
      case LayerKind::shortcut:
        return with_shortcut({value(step.inputs[0], at)}, step, layer, at);
      case LayerKind::route: {
        auto from = at;
        std::size_t i = 0;
        for (; from.channel >= plan_.tensors[step.inputs[i]].channels; ++i)
          from.channel -= plan_.tensors[step.inputs[i]].channels;
        return {value(step.inputs[i], from)};
      }
      case LayerKind::upsample: {
        const auto factor = layer.window.stride;
        return {value(step.inputs[0], {at.channel, at.image, at.row / factor, at.column / factor})};
      }
      case LayerKind::softmax:
        return softened(step, at);
      case LayerKind::yolo: {
        const ExpectedNumber x{value(step.inputs[0], at)};
        const auto entry = at.channel % layer.entries;
        return entry == 2 || entry == 3 ? x : activated(x, Activation::logistic);
      }
    }
    return {};
  }

  double error(const Step& step, const Spot& at) const {
    const auto right = expected(step, at);
    return in_bounds(value(step.output, at), right);
  }
  /// How far off a number is, counted in bounds.
  static double in_bounds(double actual, const ExpectedNumber& right) {
    const double off = std::abs(actual - right.value);
    if (off == 0) return 0;
    const double error = off / right.bound;
    return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
  }

  const Plan& plan_;
  const Parameters& parameters_;
  const device::Convolutions* const library_;
  const std::uint64_t seed_;
  std::vector<std::vector<float>> made_;  // of tensors that are wanted still
};

/// Does all layers once more, each followed by a look at what it made, and compares the results with `measured`.
/// Returns the largest error, counted in bounds.
inline double check_layers(const Network& network, const Addresses& at, TileStaging staging, std::uint64_t seed,
                           device::Stream& stream, std::span<const float> measured) {
  const Plan& plan = network.plan;
  PlainLauncher launcher{stream};
  Forward forward(network, at, staging, launcher);
  LayerCheck check(network, seed);
  double worst_error = 0;
  std::vector<float> results(measured.size());
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    forward.queue(s);
    stream.synchronize();
    if (step.work == Work::leave) {
      device::copy(results.data(), at.results, results.size() * sizeof(float));
      worst_error = workload::worst(worst_error, check.error_of(step, results));
    } else {
      std::vector<float> values(plan.tensors[step.output].span.floats);
      device::copy(values.data(), forward.address(step.output), values.size() * sizeof(float));
      check.keep(step.output, std::move(values));
      worst_error = workload::worst(worst_error, check.error_of(step));
    }
    check.forget(s);
  }
  const bool same = std::memcmp(results.data(), measured.data(), results.size() * sizeof(float)) == 0;
  return same ? worst_error : std::numeric_limits<double>::infinity();
}

}  // namespace isthmus::apps
