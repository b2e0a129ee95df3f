#pragma once

// Checks of a network's layers. Each layer runs again with the same plan and in the same memory, and the host
// recomputes some of its output numbers in double from the outputs of earlier layers.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "apps/checks.hpp"
#include "apps/network/forward.hpp"

namespace isthmus::apps {

/// Expected value of a number, and the largest error that a computation in fp32 may have.
struct ExpectedNumber {
  double value = 0, bound = 0;
};

/// Returns the largest accepted error of a sum of `count` products, in units of one rounding error. Rounding errors
/// have varying signs, so their sum grows with the root of their number.
inline double roundings_of(double count) {
  return 8 * std::sqrt(count) + 8;
}

class LayerCheck {
 public:
  static constexpr double unit = 0x1p-24;
  /// Largest accepted relative error of a sum whose factors are rounded or truncated to eleven bits. Each factor adds
  /// at most 2^-10 to the relative error of its product. Truncation makes factors too small by half of that on average;
  /// the bound is about ten standard deviations above this average.
  static constexpr double of_tf32 = 4 * 0x1p-10;

  LayerCheck(const Network& network, std::uint64_t seed)
      : plan_(network.plan),
        parameters_(*network.parameters),
        library_(network.library.get()),
        seed_(seed),
        made_(plan_.tensors.size()) {}

  /// Keeps the values that the device computed for a tensor.
  void keep(std::size_t tensor, std::vector<float> values) { made_[tensor] = std::move(values); }
  /// Drops tensors that no step after `step` uses.
  void forget(std::size_t step) {
    for (std::size_t t = 0; t < made_.size(); ++t) {
      if (plan_.tensors[t].span.last <= step) made_[t] = {};
    }
  }

  /// Returns the largest error of a step, in units of its bounds.
  double error_of(const Step& step) const {
    const auto spots = spots_of(plan_.tensors[step.output].image);
    return worst_of(spots.size(), 4, [&](std::size_t i) { return error(step, spots[i]); });
  }
  /// Returns 0 if a step of kind `leave` copied all results exactly, otherwise infinity.
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

  /// Returns the places to check: all of a small tensor; in a large one, corners, edges and centres of the first,
  /// middle and last channels, and random others.
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
  /// Calls visit(row, column, r, s) for each place (r, s) of a window that is inside the plane, at (row, column).
  template <class Visit>
  static void for_window(const Layer& layer, const Spot& at, Visit visit) {
    const auto& w = layer.window;
    for (std::size_t r = 0; r < w.height; ++r) {
      const std::size_t row = at.row * w.stride + r - w.before;  // a row before the first wraps beyond the last
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

  /// Returns a layer's sum of products and the bound of its error.
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

  // A library's transform adds numbers outside of the window and subtracts them again, so the bound includes their
  // size.
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
    // The bound includes the rounding of the exponent and the lower precision of the smallest numbers.
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
  /// Returns the error of a number in units of its bound.
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
  std::vector<std::vector<float>> made_;  // values of each tensor; empty once they are no longer needed
};

/// Runs all layers again, checks the output of each, and compares the results with `measured`. Returns the largest
/// error in units of the bounds, or infinity if the results differ from the measured ones.
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
