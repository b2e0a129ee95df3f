#pragma once

// What the programs on networks share: their axes, and a network with its buffers in a case.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/modes.hpp"
#include "apps/network/forward.hpp"
#include "memory/kind.hpp"
#include "workload/library.hpp"

namespace isthmus::apps {

/// What all programs on networks have in common, and the first of their axes.
inline void add_network(workload::Workload& program) {
  using namespace workload;
  const auto size = [](const char* network, int batch) { return AxisSettings{{"network", network}, {"batch", batch}}; };
  program.source("pipelining-taco2025, Table 2 (darknet's resnet18, resnet50, yolov3-tiny, yolov3)")
      .tags({"app", "modes", "pipelining"})
      .placements(memory::all_placements())
      .stagings({Staging::direct, Staging::async})
      .axis(choice_axis("network",
                        "one of the paper's four, one with every kind of layer, or the .cfg that "
                        "ISTHMUS_NETWORK names",
                        {"sample", "resnet18", "resnet50", "yolov3-tiny", "yolov3", "file"}))
      .with_file("network", "ISTHMUS_NETWORK", "a network's .cfg as darknet has it", std::size_t{1} << 24)
      .axis(number_axis("batch", "images at once", 1))
      .axis(number_axis("side", "width and height of an image; 0: as the network says", 0, 0))
      .size("tiny", size("sample", 2))
      .size("small", size("yolov3-tiny", 1))
      .size("medium", size("resnet18", 1))
      .size("large", size("resnet50", 1))
      .size("super", size("yolov3", 1))
      .size("mega", size("resnet50", 32));
}

/// Inference: its axes, and its sizes.
inline workload::Workload network_program(const std::string& name, std::function<void(workload::Case&)> function) {
  using namespace workload;
  std::vector<AxisValue> tiles = {"automatic"};
  for (const auto& tile : tile_shapes) tiles.emplace_back(std::string(tile.name));
  Workload program(name, std::move(function));
  add_network(program);
  program
      .axis(how(choice_axis("allocation",
                            "one allocation for each array; one for all weights and one for all tensors; the same "
                            "with buffers that layers take in turn; or weights that arrive layer by layer",
                            {"arena", "tensor", "inference", "streamed"})))
      .axis(how(choice_axis("convolution",
                            "windows are found while they are multiplied, or copied out into a matrix first, as in "
                            "darknet; library: the vendor's",
                            {"implicit", "patches", "library"})))
      .axis(how(choice_axis("math", "of a library: strict fp32, or factors may be rounded to eleven significant bits",
                            {"fp32", "tf32"})))
      .axis(how(choice_axis(
          "algorithms", "what a library may choose from: any, or those that multiply as often as ours: no transforms",
          {"any", "products"})))
      .axis(how(choice_axis("layout",
                            "what a library is given: our tensors, or images one after the other, which are copied in "
                            "kernels of their own",
                            {"channels", "images"})))
      .axis(how(
          choice_axis("tile", "output of a block of a convolution; automatic: by the layer's shape", std::move(tiles))))
      .axis(number_axis("parts", "sums that a convolution's products are cut into; 0: by the layer's shape", 0, 0))
      .axis(submission_axis());
  return program;
}

/// The network that a case asks for. Throws Skip where none is named, and what the parser says of one that is wrong.
inline NetworkDescription description_of(workload::Case& c) {
  const auto side = static_cast<std::size_t>(c.integer("side"));
  workload::refuse_if(side > 65535, "an image of this side has no number for its places: make it at most 65535");
  const auto name = c.choice("network");
  if (name != "file") return parse_network(network_text(name), std::string(name) + ".cfg", side);
  const auto& file = c.input_file();
  return parse_network(file.text(), file.path(), side);
}

inline PlanOptions plan_options(const workload::Case& c, std::size_t batch) {
  PlanOptions options{.batch = batch,
                      .patches = c.choice("convolution") == "patches",
                      .tile = {},
                      .parts = static_cast<std::size_t>(c.integer("parts"))};
  for (std::size_t t = 0; t < tile_shapes.size(); ++t) {
    if (tile_shapes[t].name == c.choice("tile")) options.tile = t;
  }
  return options;
}

/// The library of a case that convolves by one; none in others.
inline std::shared_ptr<device::Convolutions> library_of(const workload::Case& c) {
  using device::Convolutions;
  using workload::refuse_if;
  const bool tf32 = c.choice("math") == "tf32", products = c.choice("algorithms") == "products";
  if (c.choice("convolution") != "library") {
    refuse_if(tf32, "our convolutions are strict fp32: with math=tf32 say convolution=library");
    refuse_if(products, "our convolutions have no transforms: with algorithms=products say convolution=library");
    refuse_if(c.choice("layout") != "channels",
              "our convolutions take our tensors: with layout=images say convolution=library");
    return nullptr;
  }
  refuse_if(c.staging() != workload::Staging::direct, "a library stages by itself: use staging direct");
  refuse_if(c.choice("tile") != "automatic" || c.integer("parts") != 0,
            "a library has tiles of its own: leave tile and parts out with convolution=library");
  return workload::load_library<Convolutions>(
      tf32 ? Convolutions::Math::tf32 : Convolutions::Math::fp32,
      products ? Convolutions::Algorithms::products : Convolutions::Algorithms::any);
}

/// Plans a convolution, and says what it needs.
inline LibraryCall plan_by(device::Convolutions& library, const device::ConvolutionShape& shape) {
  const auto number = workload::or_skip([&] { return library.plan(shape); });
  return {number, (library.chosen(number).workspace_bytes + sizeof(float) - 1) / sizeof(float)};
}

/// What a library's convolutions ran by: "IMPLICIT_GEMM in tf32: layers 0, 3; …".
inline std::string algorithms_of(const Network& network) {
  std::map<std::string, std::string> layers;
  for (const auto& step : network.plan.steps) {
    if (!step.library) continue;
    const auto& chosen = network.library->chosen(step.library->number);
    auto& list = layers[chosen.algorithm + (chosen.tf32 ? " in tf32" : " in fp32")];
    list += (list.empty() ? "" : ", ") + std::to_string(step.layer);
  }
  std::string text;
  for (const auto& [algorithm, list] : layers) text += (text.empty() ? "" : "; ") + algorithm + ": layers " + list;
  return text;
}

/// A network in a case: what travels in and out by the placement, and what stays on the device.
class NetworkCase {
 public:
  NetworkCase(workload::Case& c, NetworkDescription description)
      : network_(make_network(c, std::move(description))),
        images_(c.input<float>("images", network_->plan.batch * network_->plan.network.input.size(),
                               [seed = c.seed()](std::size_t i) { return Network::image_value(seed, i); })),
        results_(c.output<float>("results", network_->plan.batch * network_->plan.results)) {
    with_staging<ring>(c, [&](auto how, auto) { staging_ = how(); });
    const auto& parameters = *network_->parameters;
    const auto weight = [network = network_](std::size_t i) { return (*network->parameters)(i); };
    if (network_->ring.floats > 0) {
      source_ = c.source<float>("weights", parameters.floats(), weight);
      ring_ = c.scratch<float>("ring of weights", network_->ring.floats);
    } else if (c.choice("allocation") == "tensor") {
      for (const auto& array : parameters.arrays())
        weights_.push_back(c.input<float>(array.name(), array.count, [network = network_, array](std::size_t i) {
          return (*network->parameters)(array, i);
        }));
    } else if (parameters.floats() > 0) {
      weights_.push_back(c.input<float>("weights", parameters.floats(), weight));
    }
    for (std::size_t b = 0; b < network_->memory.buffers.size(); ++b)
      buffers_.push_back(c.scratch<float>("tensors " + std::to_string(b), network_->memory.buffers[b]));
  }

  const Network& network() const { return *network_; }
  TileStaging staging() const { return staging_; }
  const workload::Buffer<float>& results() const { return results_; }
  /// A buffer on both sides counts once, and so do weights with their ring.
  std::size_t allocations() const { return weights_.size() + (ring_ ? 1 : 0) + buffers_.size() + 2; }

  /// In a body and in checks.
  Addresses addresses() const {
    Addresses at{.images = images_.device(), .results = results_.device(), .source = source_, .ring = ring_};
    const auto& arrays = network_->parameters->arrays();
    for (std::size_t a = 0, s = 0; a < arrays.size(); ++a) {
      if (ring_) {
        const auto& arrivals = network_->ring.arrivals;
        while (arrays[a].offset >= arrivals[s].offset + arrivals[s].floats) ++s;
        at.parameters.push_back(ring_->device() + arrivals[s].place + (arrays[a].offset - arrivals[s].offset));
        continue;
      }
      at.parameters.push_back(weights_.size() == arrays.size() ? weights_[a].device()
                                                               : weights_[0].device() + arrays[a].offset);
    }
    for (const auto& buffer : buffers_) at.buffers.push_back(buffer.device());
    return at;
  }

 private:
  static std::shared_ptr<const Network> make_network(workload::Case& c, NetworkDescription description) {
    auto options = plan_options(c, c.extent("batch"));
    const auto library = library_of(c);
    if (library) options.library = [&](const device::ConvolutionShape& shape) { return plan_by(*library, shape); };
    options.by_image = c.choice("layout") == "images";
    auto plan = make_plan(std::move(description), options);
    auto memory = plan_memory(plan, c.choice("allocation"));
    auto network = std::make_shared<Network>(std::move(plan), std::move(memory), c.seed(), library);
    if (c.choice("allocation") == "streamed")
      network->ring = plan_ring(network->parameters->floats_of(network->plan.steps));
    if (library) {
      c.note("library", library->version());
      c.note("algorithms", algorithms_of(*network));
    }
    return network;
  }

  std::shared_ptr<const Network> network_;
  workload::Buffer<float> images_, results_;
  std::vector<workload::Buffer<float>> weights_{}, buffers_{};
  std::optional<workload::Buffer<float>> source_{}, ring_{};  // of weights that arrive layer by layer
  TileStaging staging_{};
};

/// What a case that does not fit may be told: a batch that would. `plan_of(batch)` is the plan of that many images.
template <class PlanOf>
std::string largest_batch(const workload::Case& c, const workload::Shortage& shortage, const PlanOf& plan_of) {
  const bool device = shortage.memory == workload::Shortage::Memory::device;
  const auto there = c.placement()->device;
  const bool travels = !device || memory::on_device(there) || memory::is_managed(there);
  const auto bytes = [&](std::size_t batch) {
    const Plan plan = plan_of(batch);
    const std::size_t both = travels ? batch * (plan.network.input.size() + plan.results) : 0;
    const std::size_t tensors = device ? plan_memory(plan, c.choice("allocation")).floats() : 0;
    return 4.0 * static_cast<double>(both + tensors);
  };
  std::size_t fits = 0, too_large = c.extent("batch");
  const double others = shortage.needed - bytes(too_large);
  while (too_large - fits > 1) {
    const auto between = fits + (too_large - fits) / 2;
    (others + bytes(between) <= shortage.usable ? fits : too_large) = between;
  }
  return fits == 0 ? "not one image fits" : "a batch of " + std::to_string(fits) + " fits";
}

/// Measures; a batch that does not fit is told which would.
template <class Body, class PlanOf>
void measure_batch(workload::Case& c, Body body, const PlanOf& plan_of) {
  try {
    c.measure(workload::Control::queued, std::move(body));
  } catch (const workload::Skip& skip) {
    if (!skip.shortage) throw;
    throw workload::Skip(std::string(skip.what()) + "; " + largest_batch(c, *skip.shortage, plan_of), *skip.shortage);
  }
}

/// What the record says of a network's memory, beside its phases.
inline void observe_memory(workload::Case& c, const Network& network, std::size_t allocations) {
  using namespace workload;
  c.observe(amount_metric("tensor_bytes", "B", Better::lower, "none"),
            4.0 * static_cast<double>(network.memory.floats()));
  c.observe(amount_metric("live_bytes", "B", Better::lower, "none"),
            4.0 * static_cast<double>(most_live(spans_of(network.plan))));
  c.observe(count_metric("allocations"), static_cast<double>(allocations));
}

}  // namespace isthmus::apps
