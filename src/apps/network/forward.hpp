#pragma once

// A network in a case: its weights, its memory, and the launches of one pass.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/network/kernels.hpp"
#include "apps/network/plan.hpp"
#include "workload/choices.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

constexpr std::size_t array_unit = 32;  // floats; arrays begin at multiples of 128 bytes

/// Returns `what` prefixed with the layer's number in three digits, so that names sort by layer.
inline std::string numbered(std::size_t layer, std::string_view what) {
  auto number = std::to_string(layer);
  if (number.size() < 3) number.insert(0, 3 - number.size(), '0');
  return number + ' ' + std::string(what);
}

// --- weights ---------------------------------------------------------------------------------------

enum class Parameter { weights, biases, scales, means, variances };

/// Array of learned numbers of a layer. Each row of weights is padded to 16 bytes and contains the places of the window
/// one after the other, each with its channels. Weights for a library are in darknet's order, without padding.
struct ParameterArray {
  std::size_t layer;
  Parameter what;
  std::size_t count, offset;  ///< numbers of floats; offset: position if all arrays are stored contiguously
  std::string name() const {
    constexpr const char* names[] = {"weights", "biases", "scales", "means", "variances"};
    return numbered(layer, names[static_cast<std::size_t>(what)]);
  }
};

inline std::size_t weights_pitch(const Layer& layer) {
  return (layer.depth() + 3) / 4 * 4;
}

/// All arrays of a network and their generated contents. Weights have a standard deviation of √(2 / products per sum).
/// The means and variances of batch normalisation are about those that such weights produce.
class Parameters {
 public:
  Parameters(const Plan& plan, std::uint64_t seed) : layers_(plan.network.layers), seed_(seed) {
    of_layer_.resize(layers_.size(), 0);
    moments_.resize(layers_.size(), 0);
    by_library_.resize(layers_.size(), false);
    for (const auto& step : plan.steps) {
      if (step.work != Work::layer || !layers_[step.layer].has_weights()) continue;
      const Layer& layer = layers_[step.layer];
      moments_[step.layer] = 2 * plan.tensors[step.inputs[0]].moment;
      of_layer_[step.layer] = arrays_.size();
      by_library_[step.layer] = step.library.has_value();
      add(step.layer, Parameter::weights, layer.out.channels * (step.library ? layer.depth() : weights_pitch(layer)));
      add(step.layer, Parameter::biases, layer.out.channels);
      if (!layer.normalize) continue;
      for (const auto what : {Parameter::scales, Parameter::means, Parameter::variances})
        add(step.layer, what, layer.out.channels);
    }
  }

  const std::vector<ParameterArray>& arrays() const { return arrays_; }
  std::size_t floats() const { return floats_; }
  std::size_t index_of(std::size_t layer, Parameter what) const {
    return of_layer_[layer] + static_cast<std::size_t>(what);
  }
  /// Returns, for each step, the number of floats in its arrays, which are contiguous.
  std::vector<std::size_t> floats_of(const std::vector<Step>& steps) const {
    std::vector<std::size_t> floats(steps.size(), 0);
    std::size_t a = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (steps[s].work != Work::layer) continue;
      for (; a < arrays_.size() && arrays_[a].layer == steps[s].layer; ++a) floats[s] += floats_in(arrays_[a].count);
    }
    return floats;
  }

  /// Returns element i of an array.
  float operator()(const ParameterArray& array, std::size_t i) const {
    const Layer& layer = layers_[array.layer];
    if (array.what != Parameter::weights) return of_channel(array.layer, array.what, i);
    if (by_library_[array.layer]) return weight(array.layer, i);
    const std::size_t pitch = weights_pitch(layer), k = i % pitch, place = k / layer.in.channels;
    return k >= layer.depth() ? 0
                              : weight(array.layer, i / pitch, k % layer.in.channels, place / layer.window.width,
                                       place % layer.window.width);
  }
  /// Returns element i of all arrays stored contiguously; the gaps between arrays contain zeros.
  float operator()(std::size_t i) const {
    const auto after = std::upper_bound(arrays_.begin(), arrays_.end(), i,
                                        [](std::size_t at, const ParameterArray& array) { return at < array.offset; });
    const auto& array = *(after - 1);
    return i - array.offset < array.count ? (*this)(array, i - array.offset) : 0;
  }
  /// Returns the weight of output channel m, input channel c, row r and column s of the window. Weights are generated
  /// in darknet's order.
  float weight(std::size_t l, std::size_t m, std::size_t c, std::size_t r, std::size_t s) const {
    const Layer& layer = layers_[l];
    return weight(l, ((m * layer.in.channels + c) * layer.window.height + r) * layer.window.width + s);
  }
  /// Returns the weight at place i in darknet's order.
  float weight(std::size_t l, std::size_t i) const {
    const auto most = static_cast<float>(std::sqrt(6 / static_cast<double>(layers_[l].depth())));
    return values(l, Parameter::weights, -most, most)(i);
  }
  float of_channel(std::size_t l, Parameter what, std::size_t m) const {
    const auto moment = static_cast<float>(moments_[l]), root = std::sqrt(moment);
    switch (what) {
      case Parameter::scales:
        return values(l, what, 0.5f, 1.5f)(m);
      case Parameter::means:
        return values(l, what, -0.1f * root, 0.1f * root)(m);
      case Parameter::variances:
        return values(l, what, 0.5f * moment, 1.5f * moment)(m);
      default:
        return values(l, what, -0.5f, 0.5f)(m);
    }
  }

 private:
  void add(std::size_t layer, Parameter what, std::size_t count) {
    arrays_.push_back({layer, what, count, floats_});
    floats_ += floats_in(count);
  }
  static std::size_t floats_in(std::size_t count) { return (count + array_unit - 1) / array_unit * array_unit; }
  workload::Uniform values(std::size_t l, Parameter what, float low, float high) const {
    return workload::uniform(seed_, 16 + 8 * l + static_cast<std::size_t>(what), low, high);
  }

  const std::vector<Layer>& layers_;
  std::uint64_t seed_;
  std::vector<ParameterArray> arrays_;
  std::vector<std::size_t> of_layer_;
  std::vector<bool> by_library_;
  std::vector<double> moments_;  // approximate mean square of each layer's sums of products
  std::size_t floats_ = 0;
};

// --- one pass --------------------------------------------------------------------------------------

/// Plan with its weights and memory, and the names of its launches. `library` has the convolutions that the plan refers
/// to by number, if a library computes them.
struct Network {
  Plan plan;
  MemoryPlan memory;
  std::unique_ptr<const Parameters> parameters;
  WeightRing ring{};  ///< layout of the buffer that receives weights layer by layer
  std::shared_ptr<device::Convolutions> library;
  /// Names of each step's launches.
  std::vector<std::string> names{}, names_of_patches{}, names_of_sums{}, names_to_images{}, names_from_images{};

  Network(Plan plan_, MemoryPlan memory_, std::uint64_t seed, std::shared_ptr<device::Convolutions> library_ = {})
      : plan(std::move(plan_)),
        memory(std::move(memory_)),
        parameters(std::make_unique<Parameters>(plan, seed)),
        library(std::move(library_)) {
    for (const auto& step : plan.steps) {
      const auto kind = name_of(plan.network.layers[step.layer].kind);
      names.push_back(step.work == Work::enter         ? "enter"
                      : step.work == Work::leave       ? numbered(step.layer, "leave")
                      : step.shortcut && !step.library ? numbered(step.layer, kind) + " + shortcut"
                                                       : numbered(step.layer, kind));
      names_of_patches.push_back(numbered(step.layer, "patches"));
      names_to_images.push_back(numbered(step.layer, "to images"));
      names_from_images.push_back(numbered(step.layer, "from images"));
      names_of_sums.push_back(numbered(step.layer, step.library ? "epilogue" : "sum of parts"));
    }
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Returns element i of the input images, which are stored one after the other, channel by channel.
  static float image_value(std::uint64_t seed, std::size_t i) { return workload::uniform(seed, 0, 0, 1)(i); }
};

/// Addresses of a network's memory while it runs.
struct Addresses {
  const float* images = nullptr;
  std::vector<const float*> parameters{};  ///< one per array
  std::vector<float*> buffers{};           ///< one per buffer of the memory plan
  float* results = nullptr;
  /// Buffers of streamed weights: all weights on the host, and the ring on the device.
  std::optional<workload::Buffer<float>> source{}, ring{};
};

constexpr unsigned ring = 3;  // tiles of a matrix in shared memory, one of which is in use

/// Launcher for checks. It queues kernels like Run, but does not count traffic, and its copies are synchronous.
struct PlainLauncher {
  device::Stream& stream;
  void copy_in(std::size_t, const workload::Delivery<float>& what, std::optional<std::size_t>) {
    stream.synchronize();
    device::copy(what.to.device() + what.place, what.source.host() + what.first, what.count * sizeof(float));
  }
  void await(std::size_t) {}
  void mark(std::size_t) {}
  template <class... P, class... A>
  void launch(device::Kernel<P...> kernel, const device::LaunchShape& shape, const workload::Traffic&,
              A&&... arguments) {
    device::launch(stream, kernel, shape, std::forward<A>(arguments)...);
  }
  template <class Queue>
  void call(std::string_view, const workload::Traffic&, Queue&& queue) {
    queue(stream);
  }
};

/// Returns a number converted to 32 bits, the type of kernel arguments.
constexpr unsigned count(std::size_t number) {
  return static_cast<unsigned>(number);
}
/// Returns 2^32 / n, rounded up.
constexpr unsigned reciprocal(std::size_t n) {
  return static_cast<unsigned>((std::uint64_t{1} << 32) / n + ((std::uint64_t{1} << 32) % n != 0 ? 1 : 0));
}

/// Arguments for the launch of a matrix product, and for the sum of its parts if it has several.
struct ProductCall {
  const Product& product;
  const char *name, *name_of_sum;
  const float* weights;  ///< the first matrix, whose rows are padded with zeros to 16 bytes
  std::size_t weights_pitch;
  float* partial;
  unsigned columns_of_sum;  ///< columns of the output that the sum of parts writes
  double bytes_read, bytes_written;
};

/// Queues the kernel that adds up the parts of a product and applies the epilogue.
template <class Launcher>
void launch_sum(Launcher& launcher, const ProductCall& call, const Epilogue& epilogue) {
  const auto m = count(call.product.m), parts = count(call.product.parts);
  launcher.launch(
      device::Kernel{call.name_of_sum, add_parts},
      {.grid = {(call.columns_of_sum + 4 * layer_threads - 1) / (4 * layer_threads), m}, .block = layer_threads},
      {.bytes_read = parts * call.bytes_written,
       .bytes_written = call.bytes_written,
       .flops = parts * call.bytes_written / 4},
      call.partial, parts, m, call.columns_of_sum, epilogue);
}

template <class Launcher, class Second>
void launch_product(Launcher& launcher, TileStaging staging, const ProductCall& call, const Epilogue& epilogue,
                    const Second& second) {
  using workload::Constant;
  const auto& product = call.product;
  const auto m = count(product.m), n = count(product.n), k = count(product.k), parts = count(product.parts);
  const auto launch = [&](auto tile, auto way, auto buffers) {
    using Tile = decltype(tile);
    constexpr TileStaging staged = way();
    constexpr unsigned depth = buffers();
    launcher.launch(
        device::Kernel{call.name, multiply<staged, depth, Tile, Second>},
        {.grid = {(m + Tile::rows - 1) / Tile::rows * count(product.tiles_across(Tile::columns)), parts},
         .block = device::matrix_threads,
         .shared_bytes = depth * (Tile::a_elements + Tile::b_elements) * sizeof(float)},
        {.bytes_read = call.bytes_read, .bytes_written = parts * call.bytes_written, .flops = product.flops()},
        call.weights, second, ProductShape{m, n, k, count(product.depth_of_part), call.weights_pitch, call.partial},
        epilogue);
  };
  const auto staged = [&](auto way, auto buffers) {
    switch (product.tile) {
      case 0:
        return launch(Tile128x128{}, way, buffers);
      case 1:
        return launch(Tile64x256{}, way, buffers);
      default:
        return launch(Tile64x64{}, way, buffers);
    }
  };
  if (staging == TileStaging::direct)
    staged(Constant<TileStaging::direct>{}, Constant<1u>{});
  else
    staged(Constant<TileStaging::async>{}, Constant<ring>{});
  if (parts > 1) launch_sum(launcher, call, epilogue);
}

/// Queues the steps of a network.
template <class Launcher>
class Forward {
 public:
  Forward(const Network& network, const Addresses& at, TileStaging staging, Launcher& launcher)
      : network_(network), plan_(network.plan), at_(at), staging_(staging), launcher_(launcher) {}

  void queue() {
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) queue(s);
  }
  void queue(std::size_t s) {
    if (network_.ring.floats == 0 || network_.ring.arrivals[s].floats == 0) return queue_step(s);
    const auto& arrival = network_.ring.arrivals[s];
    const workload::Delivery<float> weights{*at_.source, arrival.offset, arrival.floats, *at_.ring, arrival.place};
    launcher_.copy_in(s, weights, arrival.after);
    launcher_.await(s);
    queue_step(s);
    launcher_.mark(s);
  }
  void queue_step(std::size_t s) {
    number_ = s;
    const Step& step = plan_.steps[s];
    if (step.work == Work::leave) return queue_leave(step);
    const Tensor& out = plan_.tensors[step.output];
    if (step.work == Work::enter) {
      const auto& in = plan_.network.input;
      return elementwise(device::Kernel{name(), enter}, out, 1, 0, at_.images, count(in.channels), count(in.plane()),
                         count(out.columns), address(step.output), out.pitch);
    }
    const Layer& layer = plan_.network.layers[step.layer];
    float* to = address(step.output);
    const auto columns = count(out.columns);
    switch (layer.kind) {
      case LayerKind::convolutional:
      case LayerKind::connected:
        return queue_product(s, epilogue_of(step, layer));
      case LayerKind::maxpool:
        return elementwise(device::Kernel{name(), pool_largest}, out, reads_of(layer, out), 0,
                           window_of(step.inputs[0], layer), columns, to, out.pitch);
      case LayerKind::avgpool: {
        const auto plane = static_cast<double>(layer.in.plane());
        return elementwise(device::Kernel{name(), pool_average}, out, plane, plane, planes(step.inputs[0]), columns, to,
                           out.pitch);
      }
      case LayerKind::shortcut:
        return elementwise(device::Kernel{name(), add_shortcut}, out, 2, 1, planes(step.inputs[0]), addend(step, layer),
                           columns, to, out.pitch);
      case LayerKind::route: {
        unsigned first = 0;
        for (const auto t : step.inputs) {
          elementwise(device::Kernel{name(), join}, plan_.tensors[t], 1, 0, planes(t), columns, first, to, out.pitch);
          first += count(plan_.tensors[t].channels);
        }
        return;
      }
      case LayerKind::upsample: {
        const auto factor = static_cast<double>(layer.window.stride);
        return elementwise(device::Kernel{name(), enlarge}, out, 1 / (factor * factor), 0, planes(step.inputs[0]),
                           count(layer.window.stride), columns, to, out.pitch);
      }
      case LayerKind::softmax: {
        const double bytes = bytes_of(out);
        return launcher_.launch(device::Kernel{name(), soften}, {.grid = count(plan_.batch), .block = layer_threads},
                                {.bytes_read = bytes, .bytes_written = bytes, .flops = bytes / 2},
                                planes(step.inputs[0]), to, out.pitch);
      }
      case LayerKind::yolo:
        return elementwise(device::Kernel{name(), find_boxes}, out, 1, 2, planes(step.inputs[0]), count(layer.entries),
                           columns, to, out.pitch);
    }
  }

  float* address(std::size_t tensor) const {
    const auto& place = network_.memory.places[tensor];
    return at_.buffers[place.buffer] + place.offset;
  }

  /// Queues the products of step s, and the sum of parts and the epilogue that follow them.
  void queue_product(std::size_t s, const Epilogue& epilogue) {
    number_ = s;
    const Step& step = plan_.steps[s];
    const Layer& layer = plan_.network.layers[step.layer];
    const Tensor &in = plan_.tensors[step.inputs[0]], &out = plan_.tensors[step.output];
    const auto& product = step.product;
    const double factors = 4.0 * static_cast<double>(product.m * product.k) + bytes_of(in);
    const double added = step.added == no_tensor ? 0 : bytes_of(plan_.tensors[step.added]);
    const ProductCall call{.product = product,
                           .name = name(),
                           .name_of_sum = network_.names_of_sums[number_].c_str(),
                           .weights = parameter(step.layer, Parameter::weights),
                           .weights_pitch = weights_pitch(layer),
                           .partial = step.partial == no_tensor ? nullptr : address(step.partial),
                           .columns_of_sum = count(out.columns),
                           .bytes_read = factors + added,
                           .bytes_written = bytes_of(out)};
    if (step.library) {
      convolve(step, layer, call, factors);
      launch_sum(launcher_, call, epilogue);
    } else if (step.patches != no_tensor) {
      const Tensor& patches = plan_.tensors[step.patches];
      const auto rows = std::min<std::size_t>(patches.channels, 65535);
      auto shape = grid_of(patches);
      shape.grid.y = count(rows);
      launcher_.launch(device::Kernel{network_.names_of_patches[number_].c_str(), copy_windows}, shape,
                       {.bytes_read = bytes_of(in), .bytes_written = bytes_of(patches)},
                       window_of(step.inputs[0], layer), count(patches.columns), address(step.patches), patches.pitch);
      launch_product(launcher_, staging_, call, epilogue, PlainMatrix{address(step.patches), patches.pitch});
    } else if (product.is_plain) {
      launch_product(launcher_, staging_, call, epilogue, PlainMatrix{address(step.inputs[0]), in.pitch});
    } else {
      launch_product(launcher_, staging_, call, epilogue, window_of(step.inputs[0], layer));
    }
  }

  Planes planes(std::size_t t) const {
    const Tensor& tensor = plan_.tensors[t];
    return {address(t), tensor.pitch, count(tensor.channels), count(tensor.image.height), count(tensor.image.width)};
  }
  WindowShape window_of(std::size_t t, const Layer& layer) const {
    const auto& w = layer.window;
    return {planes(t),          count(w.height),         count(w.width),         count(w.stride),
            count(w.before),    count(layer.out.height), count(layer.out.width), reciprocal(layer.in.channels),
            reciprocal(w.width)};
  }
  static double bytes_of(const Tensor& tensor) { return 4.0 * static_cast<double>(tensor.channels * tensor.columns); }
  static device::LaunchShape grid_of(const Tensor& tensor) {
    return {.grid = {count((tensor.columns + layer_threads - 1) / layer_threads), count(tensor.channels)},
            .block = layer_threads};
  }

 private:
  const char* name() const { return network_.names[number_].c_str(); }

  /// Queues a library's convolution, which writes its sums to the buffer for the part of a product.
  void convolve(const Step& step, const Layer& layer, const ProductCall& call, double bytes_read) {
    const Tensor &in = plan_.tensors[step.inputs[0]], &out = plan_.tensors[step.output];
    const bool by_image = step.in_images != no_tensor;
    if (by_image)
      elementwise(device::Kernel{network_.names_to_images[number_].c_str(), leave}, in, 1, 0, planes(step.inputs[0]),
                  count(in.columns), address(step.in_images), layer.in.size());
    launcher_.call(
        call.name, {.bytes_read = bytes_read, .bytes_written = call.bytes_written, .flops = call.product.flops()},
        [&](device::Stream& stream) {
          network_.library->run(stream, step.library->number, address(by_image ? step.in_images : step.inputs[0]),
                                call.weights, by_image ? address(step.out_images) : call.partial,
                                step.workspace == no_tensor ? nullptr : address(step.workspace));
        });
    if (by_image)
      elementwise(device::Kernel{network_.names_from_images[number_].c_str(), enter}, out, 1, 0,
                  address(step.out_images), count(layer.out.channels), count(layer.out.plane()), count(out.columns),
                  call.partial, out.pitch);
  }

  /// Launches one thread per number of a tensor; a thread reads `reads` numbers and does `flops` operations.
  template <class... P, class... A>
  void elementwise(device::Kernel<P...> kernel, const Tensor& tensor, double reads, double flops, A&&... arguments) {
    const double bytes = bytes_of(tensor);
    launcher_.launch(kernel, grid_of(tensor),
                     {.bytes_read = reads * bytes, .bytes_written = bytes, .flops = flops * bytes / 4},
                     std::forward<A>(arguments)...);
  }
  /// Returns how many input numbers are read per output number, counting each input number once.
  static double reads_of(const Layer& layer, const Tensor& out) {
    return static_cast<double>(layer.in.size()) / static_cast<double>(out.image.size());
  }

  Addend addend(const Step& step, const Layer& shortcut) const {
    return {planes(step.added), count(shortcut.window.stride), static_cast<unsigned>(shortcut.activation)};
  }
  const float* parameter(std::size_t layer, Parameter what) const {
    return at_.parameters[network_.parameters->index_of(layer, what)];
  }

  Epilogue epilogue_of(const Step& step, const Layer& layer) const {
    const Tensor& out = plan_.tensors[step.output];
    const auto l = step.layer;
    Epilogue epilogue{.biases = parameter(l, Parameter::biases),
                      .scales = nullptr,
                      .means = nullptr,
                      .variances = nullptr,
                      .activation = static_cast<unsigned>(layer.activation),
                      .addend = {},
                      .height = count(layer.out.height),
                      .width = count(layer.out.width),
                      .out = address(step.output),
                      .pitch = out.pitch};
    if (layer.normalize) {
      epilogue.scales = parameter(l, Parameter::scales);
      epilogue.means = parameter(l, Parameter::means);
      epilogue.variances = parameter(l, Parameter::variances);
    }
    if (step.shortcut) epilogue.addend = addend(step, plan_.network.layers[*step.shortcut]);
    return epilogue;
  }

  void queue_leave(const Step& step) {
    const Tensor& in = plan_.tensors[step.inputs[0]];
    elementwise(device::Kernel{name(), leave}, in, 1, 0, planes(step.inputs[0]), count(in.columns),
                at_.results + step.result, plan_.results);
  }

  const Network& network_;
  const Plan& plan_;
  const Addresses& at_;
  const TileStaging staging_;
  Launcher& launcher_;
  std::size_t number_ = 0;
};

}  // namespace isthmus::apps
