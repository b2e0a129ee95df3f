#pragma once

// Networks as darknet describes them (.cfg): sections of options, each of which is a layer. docs/networks.md has them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::apps {

enum class LayerKind { convolutional, connected, maxpool, avgpool, shortcut, route, upsample, softmax, yolo };
enum class Activation { linear, relu, leaky, logistic };

std::string_view name_of(LayerKind kind);

/// What a layer makes of one image.
struct Volume {
  std::size_t channels = 0, height = 0, width = 0;
  std::size_t plane() const { return height * width; }
  std::size_t size() const { return channels * plane(); }
  bool operator==(const Volume&) const = default;
};

/// A window that moves over the planes of its input, `before` of it outside at first.
struct Window {
  std::size_t height = 1, width = 1, stride = 1, before = 0;
};

struct Layer {
  LayerKind kind{};
  int line = 0;                     ///< where its section begins
  std::vector<std::size_t> from{};  ///< layers, by number: a route's all, a shortcut's other one
  Volume in{}, out{};               ///< in: of the layer before
  Window window{};
  Activation activation = Activation::linear;
  bool normalize = false;   ///< with batch normalisation
  std::size_t entries = 0;  ///< of a yolo layer: numbers of a box
  /// Products of one element of a layer with weights.
  std::size_t depth() const { return window.height * window.width * in.channels; }
  bool has_weights() const { return kind == LayerKind::convolutional || kind == LayerKind::connected; }
};

struct NetworkDescription {
  std::string name;
  Volume input;
  std::vector<Layer> layers;
  /// What layer `l` is given as the output of the one before.
  const Volume& input_of(std::size_t l) const { return l == 0 ? input : layers[l - 1].out; }
};

/// Of a text that is called `name` in errors. `side`, where it is not 0, is the width and height of an image instead of
/// those in the text. Throws std::invalid_argument, one sentence that begins with file and line.
NetworkDescription parse_network(std::string_view text, const std::string& name, std::size_t side = 0);

/// The text of sample, resnet18, resnet50, yolov3-tiny or yolov3.
std::string network_text(std::string_view name);

}  // namespace isthmus::apps
