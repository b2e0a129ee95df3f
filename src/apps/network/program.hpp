#pragma once

// Code that the network programs share: their axes, and a case's network with its buffers.

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

/// Adds the properties that all network programs have in common, and the first of their axes.
inline void add_network(workload::Workload& program) {
  using namespace workload;
  const auto size = [](const char* network, int batch) { return AxisSettings{{"network", network}, {"batch", batch}}; };
  program.source("pipelining-taco2025, Table 2 (darknet's resnet18, resnet50, yolov3-tiny, yolov3)")
      .tags({"app", "modes", "pipelining"})
      .placements(memory::all_placements())
      .stagings({Staging::direct, Staging::async})
      .axis(choice_axis(
          "network",
          "one of the paper's four networks, one with every kind of layer, or the .cfg named by ISTHMUS_NETWORK",
          {"sample", "resnet18", "resnet50", "yolov3-tiny", "yolov3", "file"}))
      .with_file("network", "ISTHMUS_NETWORK", "a network's .cfg in darknet's format", std::size_t{1} << 24)
      .axis(number_axis("batch", "images per batch", 1))
      .axis(number_axis("side", "width and height of an image; 0: the network's own", 0, 0))
      .size("tiny", size("sample", 2))
      .size("small", size("yolov3-tiny", 1))
      .size("medium", size("resnet18", 1))
      .size("large", size("resnet50", 1))
      .size("super", size("yolov3", 1))
      .size("mega", size("resnet50", 32));
}

/// Returns an inference program with the axes and sizes of all inference programs.
inline workload::Workload network_program(const std::string& name, std::function<void(workload::Case&)> function) {
  using namespace workload;
  std::vector<AxisValue> tiles = {"automatic"};
  for (const auto& tile : tile_shapes) tiles.emplace_back(std::string(tile.name));
  Workload program(name, std::move(function));
  add_network(program);
  program
      .axis(how(choice_axis("allocation",
                            "one allocation per array; one for all weights and one for all tensors; the same with "
                            "buffers that layers share in turn; or weights that arrive layer by layer",
                            {"arena", "tensor", "inference", "streamed"})))
      .axis(how(choice_axis("convolution",
                            "windows are gathered during the multiplication, or first copied into a matrix as in "
                            "darknet; library: the vendor's",
                            {"implicit", "patches", "library"})))
      .axis(how(choice_axis("math",
                            "arithmetic of a library: strict fp32, or with factors rounded to eleven significant bits",
                            {"fp32", "tf32"})))
      .axis(how(choice_axis(
          "algorithms",
          "algorithms that a library may choose: any, or only direct products as in our kernels, without transforms",
          {"any", "products"})))
      .axis(how(choice_axis(
          "layout", "layout that a library receives: our tensors, or consecutive images, copied by separate kernels",
          {"channels", "images"})))
      .axis(how(choice_axis("tile", "output tile of a convolution's block; automatic: by the layer's shape",
                            std::move(tiles))))
      .axis(number_axis("parts", "partial sums that a convolution is split into; 0: by the layer's shape", 0, 0))
      .axis(submission_axis());
  return program;
}

/// Returns the network that a case selects. Throws Skip if the file is not named, and the parser's exception if the
/// network is invalid.
inline NetworkDescription description_of(workload::Case& c) {
  const auto side = static_cast<std::size_t>(c.integer("side"));
  workload::refuse_if(side > 65535, "an image's side is limited to 65535: choose a smaller one");
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

/// Returns the convolution library if the case uses one, otherwise null.
inline std::shared_ptr<device::Convolutions> library_of(const workload::Case& c) {
  using device::Convolutions;
  using workload::refuse_if;
  const bool tf32 = c.choice("math") == "tf32", products = c.choice("algorithms") == "products";
  if (c.choice("convolution") != "library") {
    refuse_if(tf32, "our convolutions are strict fp32: math=tf32 needs convolution=library");
    refuse_if(products, "our convolutions use no transforms: algorithms=products needs convolution=library");
    refuse_if(c.choice("layout") != "channels",
              "our convolutions use our tensors: layout=images needs convolution=library");
    return nullptr;
  }
  refuse_if(c.staging() != workload::Staging::direct, "a library does its own staging: use staging direct");
  refuse_if(c.choice("tile") != "automatic" || c.integer("parts") != 0,
            "a library chooses its own tiles: omit tile and parts with convolution=library");
  return workload::load_library<Convolutions>(
      tf32 ? Convolutions::Math::tf32 : Convolutions::Math::fp32,
      products ? Convolutions::Algorithms::products : Convolutions::Algorithms::any);
}

/// Plans a convolution with the library, and returns its number and the size of its workspace.
inline LibraryCall plan_by(device::Convolutions& library, const device::ConvolutionShape& shape) {
  const auto number = workload::or_skip([&] { return library.plan(shape); });
  return {number, (library.chosen(number).workspace_bytes + sizeof(float) - 1) / sizeof(float)};
}

/// Returns the algorithms of a library's convolutions: "IMPLICIT_GEMM in tf32: layers 0, 3; …".
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

/// Network of a case with its buffers. The placement determines how images, weights and results are transferred;
/// tensors stay on the device.
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
      source_ = c.host_source<float>("weights", parameters.floats(), weight);
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
  /// Returns the number of allocations. A buffer that exists on both host and device counts once; streamed weights and
  /// their ring also count once together.
  std::size_t allocations() const { return weights_.size() + (ring_ ? 1 : 0) + buffers_.size() + 2; }

  /// Returns the addresses of the buffers, which exist only within a workload's body and its checks.
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
  std::optional<workload::Buffer<float>> source_{}, ring_{};  // present if weights are streamed layer by layer
  TileStaging staging_{};
};

/// Returns advice for a case that does not fit into memory: the largest batch that would. `plan_of(batch)` returns the
/// plan for that many images.
template <class PlanOf>
std::string largest_batch(const workload::Case& c, const workload::InsufficientMemory& insufficient_memory,
                          const PlanOf& plan_of) {
  const bool device = insufficient_memory.memory == workload::InsufficientMemory::Memory::device;
  const auto there = c.placement()->device;
  const bool travels = !device || memory::on_device(there) || memory::is_managed(there);
  const auto bytes = [&](std::size_t batch) {
    const Plan plan = plan_of(batch);
    const std::size_t both = travels ? batch * (plan.network.input.size() + plan.results) : 0;
    const std::size_t tensors = device ? plan_memory(plan, c.choice("allocation")).floats() : 0;
    return 4.0 * static_cast<double>(both + tensors);
  };
  std::size_t fits = 0, too_large = c.extent("batch");
  const double others = insufficient_memory.needed - bytes(too_large);
  while (too_large - fits > 1) {
    const auto between = fits + (too_large - fits) / 2;
    (others + bytes(between) <= insufficient_memory.usable ? fits : too_large) = between;
  }
  return fits == 0 ? "no image fits" : "a batch of " + std::to_string(fits) + " fits";
}

/// Measures `body`. If the batch does not fit, throws Skip with a message that names a batch that fits.
template <class Body, class PlanOf>
void measure_batch(workload::Case& c, Body body, const PlanOf& plan_of) {
  try {
    c.measure(workload::Control::queued, std::move(body));
  } catch (const workload::Skip& skip) {
    if (!skip.insufficient_memory) throw;
    throw workload::Skip(std::string(skip.what()) + "; " + largest_batch(c, *skip.insufficient_memory, plan_of),
                         *skip.insufficient_memory);
  }
}

/// Reports a network's memory use in the record.
inline void observe_memory(workload::Case& c, const Network& network, std::size_t allocations) {
  using namespace workload;
  c.report(amount_metric("tensor_bytes", "B", Better::lower, "none"),
           4.0 * static_cast<double>(network.memory.floats()));
  c.report(amount_metric("live_bytes", "B", Better::lower, "none"),
           4.0 * static_cast<double>(most_live(spans_of(network.plan))));
  c.report(count_metric("allocations"), static_cast<double>(allocations));
}

}  // namespace isthmus::apps
