#pragma once

// Plan of a network on the device: the steps in order, the tensors that they compute, and each tensor's lifetime and
// place in memory. A tensor is a matrix with one row per channel, which contains the planes of all images one after the
// other.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "apps/network/description.hpp"
#include "device/api/libraries.hpp"
#include "workload/buffer.hpp"
#include "workload/skip.hpp"
#include "workload/values.hpp"

namespace isthmus::apps {

constexpr std::size_t no_tensor = ~std::size_t{0};

/// Piece of memory that steps [first, last] use.
struct Span {
  std::size_t floats = 0, first = 0, last = 0;
  bool meets(const Span& other) const { return first <= other.last && other.first <= last; }
};

struct Tensor {
  std::size_t channels = 0, columns = 0, pitch = 0;  ///< pitch: floats from one channel to the next
  Volume image{};                                    ///< shape of each image; columns is images × size of a plane
  Span span{};
  double moment = 1;  ///< approximate mean square
};

/// Properties of one of the tiles in `tile_shapes`. A matrix product is computed tile by tile.
struct TileFacts {
  std::string_view name;
  std::size_t rows, columns;
  double resident, speed;  ///< blocks per multiprocessor; speed as a fraction of the best tile's
};
inline constexpr std::array<TileFacts, 3> tile_shapes = {
    {{"128x128", 128, 128, 2, 1}, {"64x256", 64, 256, 2, 0.9}, {"64x64", 64, 64, 3, 0.65}}};
inline constexpr std::size_t deepest_tile = 32;  ///< largest depth of a tile, in products per sum

/// Columns of a product whose sums have the same length.
struct ProductClass {
  std::size_t n = 0, k = 0;
};

/// Matrix product out[m × n] = weights[m × k] · in[k × n] of a convolution or a connected layer.
struct Product {
  std::size_t m = 0, n = 0, k = 0;
  std::vector<ProductClass> classes{};  ///< used if columns have sums of different lengths; k is the longest
  std::size_t tile = 0, parts = 1;
  std::size_t depth_of_part = 0;  ///< products per sum in each part; the last part has the rest
  bool is_plain = false;          ///< true if the second matrix is the unchanged input, without windows
  std::size_t most_parts = 32;
  std::vector<ProductClass> all_classes() const { return classes.empty() ? std::vector{ProductClass{n, k}} : classes; }
  double flops() const {
    double sum = 0;
    for (const auto& of : all_classes()) sum += 2.0 * static_cast<double>(m) * static_cast<double>(of.n * of.k);
    return sum;
  }
  /// Returns the number of tiles with `columns` columns each. Every class gets as many tiles as the largest, so some
  /// tiles of smaller classes are empty.
  std::size_t tiles_across(std::size_t columns) const {
    std::size_t most = 0;
    for (const auto& of : all_classes()) most = std::max(most, (of.n + columns - 1) / columns);
    return most * std::max<std::size_t>(1, classes.size());
  }
};

/// Convolution that the vendor's library computes, identified by its number in device::Convolutions.
struct LibraryCall {
  std::size_t number = 0, workspace_floats = 0;
};

enum class Work { enter, layer, leave };

/// Unit of work: copying images in, a layer (for a convolution with the shortcut that follows it), or copying results
/// out.
struct Step {
  Work work{};
  std::size_t layer = 0;
  std::vector<std::size_t> inputs{};  ///< tensors
  std::size_t output = no_tensor;
  std::size_t added = no_tensor;          ///< second input of a shortcut
  std::optional<std::size_t> shortcut{};  ///< shortcut layer that is fused into a convolution
  Product product{};
  std::optional<LibraryCall> library{};
  std::size_t patches = no_tensor, partial = no_tensor;                              ///< work space
  std::size_t workspace = no_tensor, in_images = no_tensor, out_images = no_tensor;  ///< work space of a library
  std::size_t result = 0;  ///< if work is `leave`: position among the results of one image
};

struct PlanOptions {
  std::size_t batch = 1;
  bool patches = false;               ///< true if windows are copied into a matrix first
  std::optional<std::size_t> tile{};  ///< chosen by shape if empty
  std::size_t parts = 0;              ///< chosen by shape if 0
  bool fuses = true;                  ///< true if a convolution's epilogue adds the shortcut that follows it
  std::function<LibraryCall(const device::ConvolutionShape&)> library{};  ///< our own kernels if empty
  bool by_image = false;  ///< true if a library needs each image's channels together, not each channel's images
};

struct Plan {
  NetworkDescription network;
  std::size_t batch = 1;
  std::vector<Tensor> tensors;  ///< tensors of layers and work space, in the order of steps
  std::vector<bool> is_work_space;
  std::vector<Step> steps;
  std::size_t results = 0;  ///< numbers per image
};

/// Adds a matrix that steps [first, last] use, and returns its number.
inline std::size_t add_matrix(Plan& plan, std::size_t rows, std::size_t columns, std::size_t first, std::size_t last,
                              bool work_space) {
  const auto pitch = workload::row_pitch<float>(columns);
  plan.tensors.push_back({.channels = rows,
                          .columns = columns,
                          .pitch = pitch,
                          .span = {.floats = rows * pitch, .first = first, .last = last}});
  plan.is_work_space.push_back(work_space);
  return plan.tensors.size() - 1;
}

/// Exclusive upper bound of a matrix's columns, so that kernels can count them in 32 bits.
inline constexpr std::size_t most_columns = std::size_t{1} << 31;

/// Chooses the tile and the number of parts with the shortest time according to a model of one GPU. The choice is the
/// same for all devices, because the number of parts determines the order of additions. If only the tile is requested,
/// the number of parts is the one that would be chosen without the request.
inline void choose_tiles(Product& product, const PlanOptions& options) {
  std::size_t asked_parts = options.parts;
  if (options.tile && asked_parts == 0) {
    choose_tiles(product, {});
    asked_parts = product.parts;
  }
  constexpr double multiprocessors = 132, rate = 3.4e11, of_a_wave = 2e-6, of_a_sum = 4e-6, bandwidth = 2.5e12;
  const auto m = static_cast<double>(product.m), n = static_cast<double>(product.n);
  const auto classes = product.all_classes();
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t t = 0; t < tile_shapes.size(); ++t) {
    if (options.tile.value_or(t) != t) continue;
    const auto& tile = tile_shapes[t];
    const auto rows = static_cast<double>(tile.rows), columns = static_cast<double>(tile.columns);
    const std::size_t whole = (product.k + deepest_tile - 1) / deepest_tile, most = std::min(whole, product.most_parts);
    for (std::size_t asked = 1; asked <= most; ++asked) {
      if (asked_parts != 0 && asked != std::min(asked_parts, most)) continue;
      const std::size_t depth_of_part = (whole + asked - 1) / asked * deepest_tile;
      const std::size_t parts = (product.k + depth_of_part - 1) / depth_of_part;
      const auto count = static_cast<double>(parts);
      double blocks = 0;  // a class whose sums are shorter than a part counts proportionally less
      for (const auto& of : classes) {
        const std::size_t steps = (of.k + deepest_tile - 1) / deepest_tile;
        const auto deep = static_cast<double>(steps * deepest_tile), part = static_cast<double>(depth_of_part);
        blocks += std::ceil(m / rows) * std::ceil(static_cast<double>(of.n) / columns) *
                  (deep < part ? deep / part : std::ceil(static_cast<double>(of.k) / part));
      }
      const double waves = std::ceil(blocks / (multiprocessors * tile.resident));
      const double wave = tile.resident * 2 * rows * columns * static_cast<double>(depth_of_part) / (tile.speed * rate);
      const double sum = parts == 1 ? 0 : of_a_sum + 8 * count * m * n / bandwidth;
      const double seconds = waves * (wave + of_a_wave) + sum;
      if (seconds >= best) continue;
      best = seconds;
      product.tile = t;
      product.parts = parts;
      product.depth_of_part = depth_of_part;
    }
  }
}

/// Builder of a plan, layer by layer.
class Planner {
 public:
  Planner(NetworkDescription network, const PlanOptions& options) : options_(options) {
    plan_.network = std::move(network);
    plan_.batch = options.batch;
    const auto& layers = plan_.network.layers;
    uses_.resize(layers.size());
    for (std::size_t l = 0; l < layers.size(); ++l) {
      for (const auto from : layers[l].from) ++uses_[from];
      if (l > 0 && layers[l].kind != LayerKind::route) ++uses_[l - 1];
    }
  }

  Plan make() && {
    const auto& layers = plan_.network.layers;
    Step& enter = add({.work = Work::enter});
    enter.output = tensor(plan_.network.input, 1.0 / 3);
    std::size_t before = enter.output;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      before = made_by_.emplace_back(layers[l].kind == LayerKind::route && layers[l].from.size() == 1
                                         ? made_by_[layers[l].from[0]]
                                         : layer(l, before));
      if (fused_) {
        ++l;
        made_by_.push_back(before);
        fused_ = false;
      }
      if (layers[l].kind == LayerKind::yolo || l + 1 == layers.size()) leave(l, before);
    }
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      const Step& step = plan_.steps[s];
      for (const auto t : step.inputs) plan_.tensors[t].span.last = s;
      if (step.added != no_tensor) plan_.tensors[step.added].span.last = s;
    }
    return std::move(plan_);
  }

 private:
  Step& add(Step step) { return plan_.steps.emplace_back(std::move(step)); }

  std::size_t matrix(std::size_t rows, std::size_t columns, bool work_space) {
    if (columns >= most_columns)
      throw workload::Skip("a layer has at least 2^31 numbers per channel: choose a smaller batch",
                           workload::SkipKind::not_applicable);
    const std::size_t now = plan_.steps.size() - 1;
    return add_matrix(plan_, rows, columns, now, now, work_space);
  }
  std::size_t tensor(const Volume& image, double moment) {
    const auto made = matrix(image.channels, options_.batch * image.plane(), false);
    plan_.tensors[made].image = image;
    plan_.tensors[made].moment = moment;
    return made;
  }

  /// Returns the mean square of an input with mean square `moment` after batch normalisation and activation.
  static double moment_after(const Layer& layer, double moment) {
    constexpr double normalized = 1.3, halved = 0.5;
    const double before = layer.normalize ? normalized : moment;
    switch (layer.activation) {
      case Activation::relu:
      case Activation::leaky:
        return before * halved;
      case Activation::logistic:
        return 1.0 / 3;
      case Activation::linear:
        break;
    }
    return before;
  }

  std::size_t layer(std::size_t l, std::size_t before) {
    const auto& layers = plan_.network.layers;
    const Layer& layer = layers[l];
    Step step{.work = Work::layer, .layer = l, .inputs = {before}};
    double moment = plan_.tensors[before].moment;
    Volume out = layer.out;
    const Layer* last = &layer;
    if (layer.has_weights()) {
      moment = moment_after(layer, 2 * moment);
      if (options_.fuses && l + 1 < layers.size() && layers[l + 1].kind == LayerKind::shortcut && uses_[l] == 1) {
        fused_ = true;
        step.shortcut = l + 1;
        last = &layers[l + 1];
      }
    }
    if (last->kind == LayerKind::shortcut) {
      step.added = made_by_[last->from[0]];
      moment = moment_after(*last, moment + plan_.tensors[step.added].moment);
    } else if (layer.kind == LayerKind::route) {
      step.inputs.clear();
      for (const auto from : layer.from) {
        step.inputs.push_back(made_by_[from]);
        moment = std::max(moment, plan_.tensors[made_by_[from]].moment);
      }
    } else if (layer.kind == LayerKind::softmax || layer.kind == LayerKind::yolo) {
      moment = 1.0 / 3;
    }
    const std::size_t s = plan_.steps.size();
    add(std::move(step));
    plan_.steps[s].output = tensor(out, moment);
    if (layer.has_weights()) multiply(plan_.steps[s], layer);
    return plan_.steps[s].output;
  }

  void multiply(Step& step, const Layer& layer) {
    auto& product = step.product;
    product = {.m = layer.out.channels, .n = plan_.tensors[step.output].columns, .k = layer.depth()};
    if (options_.library && layer.kind == LayerKind::convolutional) return convolve(step, layer);
    const auto& window = layer.window;
    product.is_plain = window.height == 1 && window.width == 1 && window.stride == 1 && window.before == 0;
    choose_tiles(product, options_);
    if (options_.patches && !product.is_plain) {
      step.patches = matrix(product.k, product.n, true);
      product.is_plain = true;
    }
    if (product.parts > 1) step.partial = matrix(product.parts * product.m, product.n, true);
  }

  void convolve(Step& step, const Layer& layer) {
    const auto number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    const auto image_of = [&](const Volume& v) { return number(options_.by_image ? v.size() : v.plane()); };
    const auto channel_of = [&](const Volume& v, std::size_t tensor) {
      return number(options_.by_image ? v.plane() : plan_.tensors[tensor].pitch);
    };
    const auto& window = layer.window;
    step.library = options_.library({.images = number(options_.batch),
                                     .channels = number(layer.in.channels),
                                     .height = number(layer.in.height),
                                     .width = number(layer.in.width),
                                     .filters = number(layer.out.channels),
                                     .window_height = number(window.height),
                                     .window_width = number(window.width),
                                     .stride = number(window.stride),
                                     .padding = number(window.before),
                                     .in_image = image_of(layer.in),
                                     .in_channel = channel_of(layer.in, step.inputs[0]),
                                     .out_image = image_of(layer.out),
                                     .out_channel = channel_of(layer.out, step.output)});
    step.partial = matrix(step.product.m, step.product.n, true);
    if (step.library->workspace_floats > 0) step.workspace = matrix(1, step.library->workspace_floats, true);
    if (!options_.by_image) return;
    step.in_images = matrix(1, options_.batch * layer.in.size(), true);
    step.out_images = matrix(1, options_.batch * layer.out.size(), true);
  }

  void leave(std::size_t l, std::size_t made) {
    add({.work = Work::leave, .layer = l, .inputs = {made}, .result = plan_.results});
    plan_.results += plan_.tensors[made].image.size();
  }

  const PlanOptions options_;
  Plan plan_{};
  std::vector<std::size_t> uses_, made_by_;  // per layer: number of readers of its output; tensor that it computes
  bool fused_ = false;
};

inline Plan make_plan(NetworkDescription network, const PlanOptions& options) {
  return Planner(std::move(network), options).make();
}

// --- places of tensors -----------------------------------------------------------------------------

struct TensorPlace {
  std::size_t buffer = 0, offset = 0;  ///< floats from the beginning of the buffer
};

/// Sizes of buffers in floats, and each tensor's place in them.
struct MemoryPlan {
  std::vector<std::size_t> buffers{};
  std::vector<TensorPlace> places{};
  std::size_t floats() const { return std::accumulate(buffers.begin(), buffers.end(), std::size_t{0}); }
};

/// Returns the largest number of floats in use at once.
inline std::size_t most_live(const std::vector<Span>& spans) {
  std::size_t most = 0;
  for (const auto& at : spans) {
    std::size_t live = 0;
    for (const auto& span : spans) live += span.first <= at.first && at.first <= span.last ? span.floats : 0;
    most = std::max(most, live);
  }
  return most;
}

inline std::vector<Span> spans_of(const Plan& plan) {
  std::vector<Span> spans;
  for (const auto& tensor : plan.tensors) spans.push_back(tensor.span);
  return spans;
}

/// Returns a plan with one buffer, in which spans that are in use at the same time do not overlap. Spans are placed in
/// the given order, each into the first gap that fits.
inline MemoryPlan in_order(const std::vector<Span>& spans, const std::vector<std::size_t>& order) {
  MemoryPlan memory{.buffers = {0}, .places = std::vector<TensorPlace>(spans.size())};
  std::vector<std::size_t> placed;  // tensors placed so far, by offset
  for (const auto t : order) {
    std::size_t offset = 0;
    for (const auto other : placed) {
      if (!spans[other].meets(spans[t])) continue;
      if (offset + spans[t].floats <= memory.places[other].offset) break;
      offset = std::max(offset, memory.places[other].offset + spans[other].floats);
    }
    memory.places[t].offset = offset;
    const auto after =
        std::find_if(placed.begin(), placed.end(), [&](auto p) { return memory.places[p].offset > offset; });
    placed.insert(after, t);
    memory.buffers[0] = std::max(memory.buffers[0], offset + spans[t].floats);
  }
  return memory;
}

/// Returns a plan with one buffer for all tensors. The largest spans are placed first. Then, as long as the buffer is
/// larger than the maximum in use at once, it tries other orders: the span at the end of the buffer moves to a random
/// earlier position. The random numbers are the same each time.
inline MemoryPlan plan_arena(const std::vector<Span>& spans) {
  constexpr std::uint64_t most_tries = 2000;
  std::vector<std::size_t> best_order(spans.size());
  std::iota(best_order.begin(), best_order.end(), std::size_t{0});
  std::stable_sort(best_order.begin(), best_order.end(),
                   [&](auto a, auto b) { return spans[a].floats > spans[b].floats; });
  auto best = in_order(spans, best_order);
  auto order = best_order;
  auto memory = best;
  const std::size_t enough = most_live(spans);
  for (std::uint64_t attempt = 0; attempt < most_tries && best.floats() > enough; ++attempt) {
    const auto top = std::find_if(order.begin(), order.end(),
                                  [&](auto t) { return memory.places[t].offset + spans[t].floats == memory.floats(); });
    const auto before = static_cast<std::size_t>(top - order.begin()) + 1;
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(workload::hash(0, 0, attempt) % before), top, top + 1);
    memory = in_order(spans, order);
    if (memory.floats() <= best.floats()) {
      best = memory;
      best_order = order;
    } else if (attempt % 16 == 15) {
      order = best_order;
      memory = best;
    }
  }
  return best;
}

/// Returns a plan with few buffers that tensors use one after the other: a tensor has a buffer to itself for its
/// lifetime. Work space is not placed.
inline MemoryPlan plan_alternating(const Plan& plan) {
  MemoryPlan memory{.buffers = {}, .places = std::vector<TensorPlace>(plan.tensors.size())};
  std::vector<std::size_t> free_after;  // last step that uses each buffer
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    if (plan.is_work_space[t]) continue;
    const auto& span = plan.tensors[t].span;
    std::size_t chosen = memory.buffers.size();
    for (std::size_t b = 0; b < memory.buffers.size(); ++b) {
      if (free_after[b] >= span.first) continue;
      if (chosen == memory.buffers.size() || memory.buffers[b] > memory.buffers[chosen]) chosen = b;
    }
    if (chosen == memory.buffers.size()) {
      memory.buffers.push_back(0);
      free_after.push_back(0);
    }
    memory.buffers[chosen] = std::max(memory.buffers[chosen], span.floats);
    free_after[chosen] = span.last;
    memory.places[t] = {chosen, 0};
  }
  return memory;
}

/// Returns a plan with one buffer per tensor, as in darknet. Work space is not placed.
inline MemoryPlan plan_apart(const Plan& plan) {
  MemoryPlan memory{.buffers = {}, .places = std::vector<TensorPlace>(plan.tensors.size())};
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    if (plan.is_work_space[t]) continue;
    memory.places[t] = {memory.buffers.size(), 0};
    memory.buffers.push_back(plan.tensors[t].span.floats);
  }
  return memory;
}

/// Adds one buffer for work space. Each step's work space starts at the beginning of this buffer.
inline void add_work_space(const Plan& plan, MemoryPlan& memory) {
  std::size_t most = 0, used = 0;
  for (std::size_t t = 0, step = 0; t < plan.tensors.size(); ++t) {
    if (!plan.is_work_space[t]) continue;
    const auto& span = plan.tensors[t].span;
    if (span.first != step) used = 0;
    step = span.first;
    memory.places[t] = {memory.buffers.size(), used};
    used += span.floats;
    most = std::max(most, used);
  }
  if (most > 0) memory.buffers.push_back(most);
}

/// Returns the memory plan for a value of the axis `allocation`: tensor, arena, inference or streamed. With streamed
/// weights, tensors are in an arena.
inline MemoryPlan plan_memory(const Plan& plan, std::string_view allocation) {
  if (allocation == "arena" || allocation == "streamed") return plan_arena(spans_of(plan));
  auto memory = allocation == "tensor" ? plan_apart(plan) : plan_alternating(plan);
  add_work_space(plan, memory);
  return memory;
}

// --- weights that arrive layer by layer ------------------------------------------------------------

/// Place of a step's weights on the host and in the ring, in floats.
struct Arrival {
  std::size_t floats = 0;              ///< 0 if the step has no weights
  std::size_t offset = 0, place = 0;   ///< positions on the host, where all weights are contiguous, and in the ring
  std::optional<std::size_t> after{};  ///< last earlier step whose weights overlap this place in the ring
};

/// Ring buffer for the weights of a few steps at a time. Weights that do not fit before its end are placed at its
/// beginning.
struct WeightRing {
  std::size_t floats = 0;
  std::vector<Arrival> arrivals{};  ///< one per step
};

/// Returns a ring for the given numbers of floats per step. It has room for three times the largest number, so that
/// weights never overwrite those of the preceding step with weights: each copy can overlap with a layer.
inline WeightRing plan_ring(const std::vector<std::size_t>& floats) {
  constexpr std::size_t steps_at_once = 3;
  WeightRing ring{.floats = 0, .arrivals = std::vector<Arrival>(floats.size())};
  const std::size_t all = std::accumulate(floats.begin(), floats.end(), std::size_t{0});
  if (all > 0) ring.floats = std::min(all, steps_at_once * *std::max_element(floats.begin(), floats.end()));
  std::size_t offset = 0, free = 0;
  for (std::size_t s = 0; s < floats.size(); ++s) {
    if (floats[s] == 0) continue;
    if (free + floats[s] > ring.floats) free = 0;
    auto& arrival = ring.arrivals[s];
    arrival = {.floats = floats[s], .offset = offset, .place = free};
    for (std::size_t before = 0; before < s; ++before) {
      const auto& other = ring.arrivals[before];
      if (other.place < free + floats[s] && free < other.place + other.floats) arrival.after = before;
    }
    offset += floats[s];
    free += floats[s];
  }
  return ring;
}

}  // namespace isthmus::apps
