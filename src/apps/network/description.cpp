#include "apps/network/description.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace isthmus::apps {

namespace {

constexpr std::array<std::string_view, 9> kinds = {"convolutional", "connected", "maxpool", "avgpool", "shortcut",
                                                   "route",         "upsample",  "softmax", "yolo"};
constexpr std::array<std::string_view, 4> activations = {"linear", "relu", "leaky", "logistic"};
constexpr std::int64_t most_extent = 65535;   // largest extent and count in a text
constexpr std::size_t most_sections = 10000;  // [net] and all layers; planning 10,000 layers takes a second

/// Option that changes what the network computes, unless it has the neutral value.
struct Neutral {
  std::string_view option;
  std::int64_t value;
};
// [net] and [yolo] have few such options: their other options concern training, pictures, or boxes after the network.
constexpr Neutral neutral_of_net[] = {{"inputs", 0}, {"time_steps", 1}};
constexpr Neutral neutral_of_yolo[] = {{"scale_x_y", 1}, {"new_coords", 0}, {"embedding_layer", 0}};
constexpr Neutral neutral_of_convolutional[] = {{"groups", 1},    {"dilation", 1}, {"antialiasing", 0}, {"binary", 0},
                                                {"xnor", 0},      {"flipped", 0},  {"bin_output", 0},   {"sway", 0},
                                                {"rotate", 0},    {"stretch", 0},  {"stretch_sway", 0}, {"dot", 0},
                                                {"coordconv", 0}, {"deform", 0}};
constexpr Neutral neutral_of_maxpool[] = {{"maxpool_depth", 0}, {"antialiasing", 0}};
constexpr Neutral neutral_of_route[] = {{"groups", 1}, {"group_id", 0}};
constexpr Neutral neutral_of_softmax[] = {{"groups", 1}, {"temperature", 1}, {"spatial", 0}};
constexpr Neutral neutral_of_upsample[] = {{"scale", 1}, {"reverse", 0}};

/// Options of any layer that matter only in training.
constexpr std::string_view training_of_layer[] = {
    "stopbackward", "learning_rate", "dont_update",         "burnin_update", "clip",   "train_only_bn",
    "onlyforward",  "cbn",           "assisted_excitation", "grad_centr",    "noloss", "delta_normalizer"};
constexpr std::string_view training_of_yolo[] = {"max"};  // listed because it would pass for a misspelt `mask`

/// Returns the minimum number of letters to change, add or remove to turn one word into the other.
std::size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// Section of the text. Options that the parser requests count as known; finish() refuses all others.
class Section {
 public:
  Section(const std::string& file, std::string kind, int line) : file_(file), kind_(std::move(kind)), line_(line) {}

  const std::string& kind() const { return kind_; }
  int line() const { return line_; }

  void add(std::string_view option, std::string_view value, int line) {
    if (!options_.emplace(std::string(option), Option{std::string(value), line}).second)
      fail(line, "option '{}' of [{}] is given twice: remove one", option, kind_);
  }
  /// Returns the value of a required option. Throws if it is missing or out of range.
  std::int64_t integer(const std::string& option, std::int64_t least) {
    const auto& found = needed(option);
    return number(found, option, found.value, least, most_extent);
  }
  std::int64_t integer_or(std::int64_t otherwise, const std::string& option, std::int64_t least,
                          std::int64_t most = most_extent) {
    const auto* found = find(option);
    return found == nullptr ? otherwise : number(*found, option, found->value, least, most);
  }
  std::size_t count(const std::string& option) { return static_cast<std::size_t>(integer(option, 1)); }
  std::size_t count_or(std::int64_t otherwise, const std::string& option, std::int64_t least = 1) {
    return static_cast<std::size_t>(integer_or(otherwise, option, least));
  }
  std::vector<std::int64_t> integers(const std::string& option) {
    const auto& found = needed(option);
    std::vector<std::int64_t> list;
    for (std::string_view rest = found.value;;) {
      const auto comma = rest.find(',');
      list.push_back(number(found, option, trimmed(rest.substr(0, comma)), -most_extent, most_extent));
      if (comma == std::string_view::npos) return list;
      rest.remove_prefix(comma + 1);
    }
  }
  template <std::size_t n>
  std::size_t word(const std::string& option, std::string_view otherwise,
                   const std::array<std::string_view, n>& words) {
    const auto* found = find(option);
    const std::string_view value = found == nullptr ? otherwise : std::string_view(found->value);
    const auto at = std::find(words.begin(), words.end(), value);
    if (at == words.end())
      fail(found->line, "option '{}' of [{}] is '{}': write {}", option, kind_, value, fmt::join(words, ", "));
    return static_cast<std::size_t>(at - words.begin());
  }
  template <std::size_t n>
  void ignore(const std::string_view (&names)[n]) {
    for (const auto name : names) {
      if (const auto found = options_.find(std::string(name)); found != options_.end()) found->second.known = true;
    }
  }
  /// Refuses each of these options if its value is not the neutral one.
  template <std::size_t n>
  void require_neutral(const Neutral (&options)[n]) {
    for (const auto& [name, neutral] : options) {
      const auto found = options_.find(std::string(name));
      if (found == options_.end()) continue;
      found->second.known = true;
      if (!equals(found->second.value, neutral))
        fail(found->second.line,
             "option '{}' of [{}] changes what the network computes, which no kernel supports: write {}, or remove it",
             name, kind_, neutral);
    }
  }
  /// Refuses options that the parser has not requested.
  void finish() const {
    for (const auto& [name, option] : options_) {
      if (!option.known)
        fail(option.line, "[{}] has no option '{}': remove it, or write one of {}", kind_, name,
             fmt::join(asked_, ", "));
    }
  }
  /// Ignores options that the parser has not requested, except that it refuses a name that resembles a requested one.
  void finish_ignoring_others() const {
    for (const auto& [name, option] : options_) {
      if (option.known || name.size() > longest_name) continue;
      for (const auto& asked : asked_) {
        if (letters_between(name, asked) <= (asked.size() > 4 ? 2 : 1))
          fail(option.line, "[{}] has no option '{}': write {}, or remove it", kind_, name, asked);
      }
    }
  }
  template <class... A>
  [[noreturn]] void fail(int line, fmt::format_string<A...> text, A&&... arguments) const {
    throw std::invalid_argument(
        fmt::format("{}:{}: {}", file_, line, fmt::format(text, std::forward<A>(arguments)...)));
  }

 private:
  static constexpr std::size_t longest_name = 32;  // longer than any option that the parser requests

  /// Returns whether a text denotes this number in any notation, such as "1", "1.0" or "1.000".
  static bool equals(std::string_view text, std::int64_t number) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && value == static_cast<double>(number);
  }

  struct Option {
    std::string value;
    int line;
    bool known = false;
  };
  Option* find(const std::string& option) {
    asked_.push_back(option);
    const auto found = options_.find(option);
    if (found == options_.end()) return nullptr;
    found->second.known = true;
    return &found->second;
  }
  const Option& needed(const std::string& option) {
    const auto* found = find(option);
    if (found == nullptr) fail(line_, "[{}] has no option '{}': add one", kind_, option);
    return *found;
  }
  std::int64_t number(const Option& option, const std::string& name, std::string_view text, std::int64_t least,
                      std::int64_t most) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
      fail(option.line, "option '{}' of [{}] is '{}': write a whole number from {} to {}", name, kind_, text, least,
           most);
    return value;
  }

  const std::string& file_;
  std::string kind_;
  int line_;
  std::map<std::string, Option> options_;
  std::vector<std::string> asked_;
};

std::vector<Section> sections_of(std::string_view text, const std::string& file) {
  std::vector<Section> sections;
  int number = 0;
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("{}:{}: {}", file, number, what));
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      if (line.back() != ']') fail(fmt::format("section '{}' is not closed: end it with ]", line));
      if (sections.size() == most_sections)
        fail(fmt::format("there are more than {} sections: use a network of fewer layers", most_sections));
      sections.emplace_back(file, std::string(trimmed(line.substr(1, line.size() - 2))), number);
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string_view::npos)
      fail(fmt::format("'{}' is neither a section nor an option: write [section] or option=value", line));
    if (sections.empty()) fail("an option precedes the first section: begin with [net]");
    sections.back().add(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)), number);
  }
  return sections;
}

/// Returns the number of the layer that an option names. A negative number counts back from layer `here`, which has the
/// option.
std::size_t layer_number(const Section& section, std::int64_t number, std::size_t here) {
  const std::int64_t absolute = number < 0 ? static_cast<std::int64_t>(here) + number : number;
  if (absolute < 0 || absolute >= static_cast<std::int64_t>(here))
    section.fail(section.line(), "[{}] is layer {} and refers to layer {}: name an earlier one", section.kind(), here,
                 absolute);
  return static_cast<std::size_t>(absolute);
}

std::string text_of(const Volume& volume) {
  return fmt::format("{} x {} x {}", volume.channels, volume.height, volume.width);
}

/// Returns the number of positions that a window has along one direction.
std::size_t places(const Section& section, std::size_t extent, std::size_t around, std::size_t window,
                   std::size_t stride) {
  if (window > extent + around)
    section.fail(section.line(), "a window of {} does not fit into {} and a padding of {}: make it smaller", window,
                 extent, around);
  return (extent + around - window) / stride + 1;
}

class LayerReader {
 public:
  LayerReader(NetworkDescription& network, Section& section)
      : network_(network), section_(section), here_(network.layers.size()) {
    layer_.line = section.line();
    layer_.in = layer_.out = network.input_of(here_);
  }

  Layer read() {
    const auto at = std::find(kinds.begin(), kinds.end(), section_.kind());
    if (at == kinds.end())
      section_.fail(section_.line(), "section [{}] is unknown: write one of {}", section_.kind(),
                    fmt::join(kinds, ", "));
    layer_.kind = static_cast<LayerKind>(at - kinds.begin());
    switch (layer_.kind) {
      case LayerKind::convolutional:
        read_convolutional();
        break;
      case LayerKind::connected:
        read_weights("output");
        layer_.window = {layer_.in.height, layer_.in.width, 1, 0};
        layer_.out.height = layer_.out.width = 1;
        break;
      case LayerKind::maxpool:
        read_maxpool();
        break;
      case LayerKind::avgpool:
        layer_.out.height = layer_.out.width = 1;
        break;
      case LayerKind::shortcut:
        read_shortcut();
        break;
      case LayerKind::route:
        read_route();
        break;
      case LayerKind::upsample:
        layer_.window.stride = section_.count_or(2, "stride");
        section_.require_neutral(neutral_of_upsample);
        layer_.out.height *= layer_.window.stride;
        layer_.out.width *= layer_.window.stride;
        break;
      case LayerKind::softmax:
        section_.require_neutral(neutral_of_softmax);
        break;
      case LayerKind::yolo:
        read_yolo();
        break;
    }
    finish_section();
    const auto& out = layer_.out;
    if (std::max({out.channels, out.height, out.width}) > static_cast<std::size_t>(most_extent))
      section_.fail(section_.line(), "[{}] produces {}: no extent may exceed {}", section_.kind(), text_of(out),
                    most_extent);
    // Kernels compute positions in a window with 32-bit products.
    const auto limit = std::size_t{1} << 32;
    if (layer_.has_weights() && (layer_.depth() * layer_.in.channels >= limit ||
                                 layer_.window.height * layer_.window.width * layer_.window.width >= limit))
      section_.fail(section_.line(), "[{}] has a window of {} x {} x {}, which is too large: make its input smaller",
                    section_.kind(), layer_.in.channels, layer_.window.height, layer_.window.width);
    return std::move(layer_);
  }

 private:
  void finish_section() {
    section_.ignore(training_of_layer);
    if (layer_.kind == LayerKind::yolo) return section_.finish_ignoring_others();
    section_.finish();
  }
  void read_activation(std::string_view otherwise) {
    layer_.activation = static_cast<Activation>(section_.word("activation", otherwise, activations));
  }
  void read_weights(const std::string& outputs) {
    layer_.out.channels = section_.count(outputs);
    layer_.normalize = section_.integer_or(0, "batch_normalize", 0, 1) != 0;
    read_activation("logistic");
  }
  void read_convolutional() {
    read_weights("filters");
    const auto size = section_.count_or(1, "size"), stride = section_.count_or(1, "stride");
    const auto asked = section_.count_or(0, "padding", 0);
    const auto padding = section_.integer_or(0, "pad", 0, 1) != 0 ? size / 2 : asked;
    section_.require_neutral(neutral_of_convolutional);
    for (const char* axis : {"stride_x", "stride_y"}) {
      if (section_.count_or(static_cast<std::int64_t>(stride), axis) != stride)
        section_.fail(section_.line(), "a window moves by {} in both directions: write the same {}, or remove it",
                      stride, axis);
    }
    layer_.window = {size, size, stride, padding};
    layer_.out.height = places(section_, layer_.in.height, 2 * padding, size, stride);
    layer_.out.width = places(section_, layer_.in.width, 2 * padding, size, stride);
  }
  void read_maxpool() {
    const auto stride = section_.count_or(1, "stride"),
               size = section_.count_or(static_cast<std::int64_t>(stride), "size");
    const auto padding = section_.count_or(static_cast<std::int64_t>(size) - 1, "padding", 0);
    section_.require_neutral(neutral_of_maxpool);
    if (padding >= 2 * size)
      section_.fail(section_.line(), "a padding of {} leaves a window of {} empty: make it less than {}", padding, size,
                    2 * size);
    layer_.window = {size, size, stride, padding / 2};
    layer_.out.height = places(section_, layer_.in.height, padding, size, stride);
    layer_.out.width = places(section_, layer_.in.width, padding, size, stride);
    // The last window must begin inside the plane, so that each window contains a number.
    for (const auto& [out, in] :
         {std::pair{layer_.out.height, layer_.in.height}, {layer_.out.width, layer_.in.width}}) {
      if ((out - 1) * stride >= in + padding / 2)
        section_.fail(section_.line(), "the last window of {} lies outside of {}: make the padding smaller", size, in);
    }
  }
  void read_shortcut() {
    layer_.from = {layer_number(section_, section_.integer("from", -most_extent), here_)};
    read_activation("linear");
    const Volume &mine = layer_.in, &other = network_.layers[layer_.from[0]].out;
    layer_.window.stride = other.width / mine.width;
    if (other.height != layer_.window.stride * mine.height || other.width != layer_.window.stride * mine.width ||
        layer_.window.stride == 0)
      section_.fail(section_.line(),
                    "a shortcut adds layer {} of {} to {}: planes must be equal, or one a multiple of the other",
                    layer_.from[0], text_of(other), text_of(mine));
  }
  void read_route() {
    layer_.out.channels = 0;
    section_.require_neutral(neutral_of_route);
    for (const auto number : section_.integers("layers")) {
      layer_.from.push_back(layer_number(section_, number, here_));
      const auto& first = network_.layers[layer_.from[0]].out;
      const auto& other = network_.layers[layer_.from.back()].out;
      if (other.height != first.height || other.width != first.width)
        section_.fail(section_.line(), "a route joins layer {} of {} and layer {} of {}: planes must be equal",
                      layer_.from[0], text_of(first), layer_.from.back(), text_of(other));
      layer_.out = {layer_.out.channels + other.channels, first.height, first.width};
    }
  }
  void read_yolo() {
    const auto boxes = section_.integers("mask").size();
    layer_.entries = 5 + section_.count("classes");
    section_.require_neutral(neutral_of_yolo);
    section_.ignore(training_of_yolo);
    if (boxes * layer_.entries != layer_.in.channels)
      section_.fail(section_.line(), "a yolo layer of {} boxes with {} numbers each has {} input channels: it needs {}",
                    boxes, layer_.entries, layer_.in.channels, boxes * layer_.entries);
  }

  NetworkDescription& network_;
  Section& section_;
  std::size_t here_;
  Layer layer_;
};

}  // namespace

std::string_view name_of(LayerKind kind) {
  return kinds[static_cast<std::size_t>(kind)];
}

NetworkDescription parse_network(std::string_view text, const std::string& name, std::size_t side) {
  auto sections = sections_of(text, name);
  if (sections.empty()) throw std::invalid_argument(fmt::format("{}:1: there is no section: begin with [net]", name));
  auto& net = sections.front();
  if (net.kind() != "net" && net.kind() != "network")
    net.fail(net.line(), "the first section is [{}]: begin with [net]", net.kind());
  NetworkDescription network{.name = name, .input = {}, .layers = {}};
  network.input = {net.count_or(3, "channels"), net.count("height"), net.count("width")};
  if (side != 0) network.input.height = network.input.width = side;
  net.require_neutral(neutral_of_net);
  net.finish_ignoring_others();
  for (std::size_t i = 1; i < sections.size(); ++i) network.layers.push_back(LayerReader(network, sections[i]).read());
  if (network.layers.empty()) net.fail(net.line(), "the network has no layers: add one after [net]");
  return network;
}

}  // namespace isthmus::apps
