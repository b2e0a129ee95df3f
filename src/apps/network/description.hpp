#pragma once

// Networks in darknet's format (.cfg): a section of options for each layer. docs/networks.md lists the options.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::apps {

enum class LayerKind { convolutional, connected, maxpool, avgpool, shortcut, route, upsample, softmax, yolo };
enum class Activation { linear, relu, leaky, logistic };

std::string_view name_of(LayerKind kind);

/// Shape of a layer's output for one image.
struct Volume {
  std::size_t channels = 0, height = 0, width = 0;
  std::size_t plane() const { return height * width; }
  std::size_t size() const { return channels * plane(); }
  bool operator==(const Volume&) const = default;
};

/// Window that moves over the planes of its input. Its first position begins `before` numbers outside the plane.
struct Window {
  std::size_t height = 1, width = 1, stride = 1, before = 0;
};

struct Layer {
  LayerKind kind{};
  int line = 0;                     ///< line where its section begins
  std::vector<std::size_t> from{};  ///< numbers of a route's input layers, or of a shortcut's second input
  Volume in{}, out{};               ///< shapes; `in` is that of the previous layer's output
  Window window{};
  Activation activation = Activation::linear;
  bool normalize = false;   ///< batch normalisation
  std::size_t entries = 0;  ///< numbers per box, in a yolo layer
  /// Returns the number of products that are summed for one output number of a layer with weights.
  std::size_t depth() const { return window.height * window.width * in.channels; }
  bool has_weights() const { return kind == LayerKind::convolutional || kind == LayerKind::connected; }
};

struct NetworkDescription {
  std::string name;
  Volume input;
  std::vector<Layer> layers;
  /// Returns the shape of layer `l`'s input, which is the previous layer's output.
  const Volume& input_of(std::size_t l) const { return l == 0 ? input : layers[l - 1].out; }
};

/// Parses the text of a network. If `side` is not 0, it replaces the width and height of images in the text. Throws
/// std::invalid_argument with one sentence, which begins with `name` and the line number.
NetworkDescription parse_network(std::string_view text, const std::string& name, std::size_t side = 0);

/// Returns the text of the built-in network `name`: sample, resnet18, resnet50, yolov3-tiny or yolov3.
std::string network_text(std::string_view name);

}  // namespace isthmus::apps
