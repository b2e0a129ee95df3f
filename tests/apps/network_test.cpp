// Tests of network descriptions, of the plans made from them, and of whole networks against a plain implementation in
// double precision.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <regex>

#include "../emulated_machine.hpp"
#include "../microbench/catalogue.hpp"
#include "../temporary_path.hpp"
#include "apps/network/program.hpp"
#include "emulated_networks.hpp"
#include "workload/worst.hpp"

namespace isthmus::apps {
namespace {

const std::vector<std::string> all_networks = {"sample", "resnet18", "resnet50", "yolov3-tiny", "yolov3"};

NetworkDescription described(const std::string& name, std::size_t side = 0) {
  return parse_network(network_text(name), name, side);
}

// --- descriptions ----------------------------------------------------------------------------------

std::string complaint_of(const std::string& text) {
  try {
    parse_network(text, "x.cfg");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(NetworkDescriptions, AreThePapersNetworks) {
  struct Known {
    const char* name;
    std::size_t layers, convolutions;
    double parameters, flops;  // in millions, and in 10^9 per image
  };
  for (const auto& known : {Known{"resnet18", 29, 18, 11.5, 3.59}, Known{"resnet50", 69, 50, 22.8, 7.46},
                            Known{"yolov3-tiny", 24, 13, 8.9, 5.56}, Known{"yolov3", 107, 75, 62.0, 65.86}}) {
    const auto plan = make_plan(described(known.name), {});
    EXPECT_EQ(plan.network.layers.size(), known.layers) << known.name;
    std::size_t convolutions = 0;
    double parameters = 0, flops = 0;
    for (const auto& step : plan.steps) {
      if (step.work != Work::layer) continue;
      const auto& layer = plan.network.layers[step.layer];
      convolutions += layer.kind == LayerKind::convolutional ? 1 : 0;
      if (!layer.has_weights()) continue;
      parameters += static_cast<double>(layer.out.channels * (layer.depth() + (layer.normalize ? 4 : 1)));
      flops += 2.0 * static_cast<double>(layer.out.size() * layer.depth());
    }
    EXPECT_EQ(convolutions, known.convolutions) << known.name;
    EXPECT_NEAR(parameters / 1e6, known.parameters, 0.06) << known.name;
    EXPECT_NEAR(flops / 1e9, known.flops, 0.006) << known.name;
  }
}

TEST(NetworkDescriptions, AreReadAsTrainingHasThem) {
  const std::string net = "width=32\nheight=32\n", convolution = "[convolutional]\nfilters=18\nsize=3\npad=1\n",
                    yolo = "[yolo]\nmask=0,1,2\nclasses=1\n";
  const auto plain = parse_network("[net]\n" + net + convolution + yolo, "x.cfg");
  // Any option of [net] and [yolo] is accepted, even one that does not exist yet; so are a layer's training options.
  const auto trained = parse_network(
      "[net]\nmosaic=1\nema_alpha=0.9998\nmax_epochs=10\nbatch=64\nadam=1\nB1=.9\nletter_box=1\nnext_idea=7\n" + net +
          convolution + "stopbackward=1\nlearning_rate=.1\ncbn=1\ngroups=1\ndilation=1\nstride_x=1\nclip=2\n" + yolo +
          "iou_loss=ciou\ncls_normalizer=1.0\nbeta_nms=0.6\nnms_kind=greedynms\nscale_x_y=1.0\nmax=200\n"
          "anchors=1,2, 3,4\nnum=9\nanother_idea=x\n",
      "x.cfg");
  ASSERT_EQ(trained.layers.size(), plain.layers.size());
  for (std::size_t i = 0; i < plain.layers.size(); ++i) {
    EXPECT_EQ(trained.layers[i].kind, plain.layers[i].kind);
    EXPECT_EQ(trained.layers[i].out.size(), plain.layers[i].out.size());
    EXPECT_EQ(trained.layers[i].window.stride, plain.layers[i].window.stride);
  }
}

TEST(NetworkDescriptions, SayWhereTheyAreWrong) {
  const std::string net = "[net]\nwidth=8\nheight = 8\n\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"", "x.cfg:1: there is no section"},
      {"width=8\n", "x.cfg:1: an option precedes the first section"},
      {"[maxpool]\n", "x.cfg:1: the first section is [maxpool]"},
      {"[net]\nwidth=8\n", "x.cfg:1: [net] has no option 'height'"},
      {net, "x.cfg:1: the network has no layers"},
      {net + "[maxpool\n", "x.cfg:5: section '[maxpool' is not closed"},
      {net + "[maxpol]\n", "x.cfg:5: section [maxpol] is unknown: write one of convolutional, "},
      {net + "[maxpool]\nsize\n", "x.cfg:6: 'size' is neither a section nor an option"},
      {net + "[maxpool]\nsise=2\n", "x.cfg:6: [maxpool] has no option 'sise'"},
      {net + "[maxpool]\nsize=2\nsize=3\n", "x.cfg:7: option 'size' of [maxpool] is given twice"},
      {net + "[maxpool]\nsize=two\n", "x.cfg:6: option 'size' of [maxpool] is 'two': write a whole number from 1 to"},
      {net + "[maxpool]\nsize=0\n", "x.cfg:6: option 'size'"},
      {net + "[maxpool]\nsize=99999999999999999999\n", "x.cfg:6: option 'size'"},
      {net + "[maxpool]\nsize=20\npadding=2\n", "x.cfg:5: a window of 20 does not fit into 8"},
      {net + "[maxpool]\nsize=2\npadding=4\n", "x.cfg:5: a padding of 4 leaves a window of 2 empty"},
      {net + "[maxpool]\nsize=1\nstride=8\npadding=1\n", "x.cfg:5: the last window of 1 lies outside of 8"},
      {net + "[convolutional]\nsize=3\n", "x.cfg:5: [convolutional] has no option 'filters'"},
      {net + "[convolutional]\nfilters=2\nactivation=swish\n",
       "x.cfg:7: option 'activation' of [convolutional] is "
       "'swish': write linear, relu, leaky, logistic"},
      {net + "[convolutional]\nfilters=2\nsize=11\n", "x.cfg:5: a window of 11 does not fit into 8"},
      {net + "[convolutional]\nfilters=2\ngroups=2\n", "x.cfg:7: option 'groups'"},
      {net + "[convolutional]\nfilters=2\ndilation=2\n",
       "x.cfg:7: option 'dilation' of [convolutional] changes what the network computes"},
      {net + "[convolutional]\nfilters=2\nstride_x=2\n", "x.cfg:5: a window moves by 1 in both directions"},
      {net + "[convolutional]\nfilters=2\nstopbakward=1\n", "x.cfg:7: [convolutional] has no option 'stopbakward'"},
      {net + "[route]\nlayers=-1\ngroups=2\n", "x.cfg:7: option 'groups' of [route] changes"},
      {net + "[yolo]\nmask=0\nclases=1\n", "x.cfg:5: [yolo] has no option 'classes'"},
      {net + "[convolutional]\nfilters=6\n[yolo]\nmask=0\nclasses=1\nscale_x_y=1.05\n",
       "x.cfg:10: option 'scale_x_y' of [yolo] changes what the network computes"},
      {"[net]\nwidth=8\nheight=8\nchanels=1\n", "x.cfg:4: [net] has no option 'chanels': write channels"},
      {"[net]\nwidth=8\nheight=8\ntime_steps=4\n", "x.cfg:4: option 'time_steps' of [net] changes"},
      {net + "[shortcut]\nfrom=-1\n", "x.cfg:5: [shortcut] is layer 0 and refers to layer -1: name an earlier one"},
      {net + "[maxpool]\nsize=2\nstride=2\n[route]\nlayers=0,1\n", "x.cfg:8: [route] is layer 1 and refers to layer 1"},
      {net + "[avgpool]\n[upsample]\nstride=8\n[maxpool]\nsize=3\nstride=3\n[shortcut]\nfrom=1\n",
       "x.cfg:11: a shortcut adds layer 1 of 3 x 8 x 8 to 3 x 3 x 3"},
      {net + "[maxpool]\nsize=2\nstride=2\n[avgpool]\n[route]\nlayers=-1,-2\n",
       "x.cfg:9: a route joins layer 1 of 3 x 1 x 1 and layer 0 of 3 x 4 x 4"},
      {net + "[route]\n", "x.cfg:5: [route] has no option 'layers'"},
      {net + "[yolo]\nmask=0,1\nclasses=2\n",
       "x.cfg:5: a yolo layer of 2 boxes with 7 numbers each has 3 input "
       "channels: it needs 14"},
      {net + "[upsample]\nstride=65535\n", "x.cfg:5: [upsample] produces 3 x 524280 x 524280"},
      {"[net]\nwidth=60000\nheight=60000\n[connected]\noutput=1\n", "x.cfg:4: [connected] has a window of"},
  };
  for (const auto& [text, complaint] : wrong)
    EXPECT_EQ(complaint_of(text).substr(0, complaint.size()), complaint) << text;
}

TEST(NetworkDescriptions, HaveAtMostTenThousandSections) {
  std::string text = "[net]\nwidth=8\nheight=8\n";
  for (int i = 1; i < 10000; ++i) text += "[avgpool]\n";
  EXPECT_EQ(parse_network(text, "x.cfg").layers.size(), 9999u);
  EXPECT_EQ(complaint_of(text + "[avgpool]\n"),
            "x.cfg:10003: there are more than 10000 sections: use a network of fewer layers");
}

// A valid text with bytes or lines removed, duplicated or changed results in a network or in an error that names the
// line.
TEST(NetworkDescriptions, SurviveWhatIsNoText) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::regex sentence("^x\\.cfg:[0-9]+: [^]+$");
  std::size_t right = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = network_text(all_networks[below(2) == 0 ? 0 : below(all_networks.size())]);
    for (std::size_t change = 0, changes = 1 + below(2); change < changes; ++change) {
      const std::size_t at = below(text.size()), line = std::min(text.find('\n', at), text.size() - 1) + 1;
      constexpr char likely[] = "0123456789-,=[]#\n \0z";
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text[at] = likely[below(sizeof likely)];
          break;
        case 2:
          text.erase(at, line - at);
          break;
        case 3:
          text.insert(below(text.size()), text.substr(at, line - at));
          break;
        default:
          text.insert(at, std::to_string(below(100000)));
      }
      if (text.empty()) text = "\n";
    }
    try {
      const auto network = parse_network(text, "x.cfg");
      ++right;
      if (network.layers.size() < 40) make_plan(network, {.batch = 3, .patches = below(2) == 0});
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(std::regex_match(error.what(), sentence)) << error.what();
    } catch (const workload::Skip&) {  // the network is too large for the program's counters
    }
  }
  EXPECT_GT(right, 20u);
}

// --- plans -----------------------------------------------------------------------------------------

void expect_apart(const std::vector<Span>& spans, const MemoryPlan& memory) {
  for (std::size_t a = 0; a < spans.size(); ++a) {
    const auto [buffer, begin] = memory.places[a];
    ASSERT_LE(begin + spans[a].floats, memory.buffers[buffer]);
    for (std::size_t b = 0; b < a; ++b) {
      const auto& other = memory.places[b];
      if (other.buffer != buffer || !spans[a].meets(spans[b])) continue;
      EXPECT_TRUE(begin + spans[a].floats <= other.offset || other.offset + spans[b].floats <= begin) << a << " " << b;
    }
  }
}

TEST(NetworkPlans, KeepApartWhatIsWantedAtOnce) {
  for (const auto& name : all_networks) {
    for (const std::size_t batch : {1, 4, 32}) {
      for (const bool patches : {false, true}) {
        const auto plan = make_plan(described(name), {.batch = batch, .patches = patches});
        const auto spans = spans_of(plan);
        for (const char* allocation : {"tensor", "arena", "inference"})
          expect_apart(spans, plan_memory(plan, allocation));
        const auto arena = plan_memory(plan, "arena"), apart = plan_memory(plan, "tensor");
        EXPECT_EQ(arena.buffers.size(), 1u);
        EXPECT_LE(static_cast<double>(arena.floats()), 1.01 * static_cast<double>(most_live(spans))) << name << batch;
        EXPECT_LT(plan_memory(plan, "inference").buffers.size(), 9u) << name;
        EXPECT_LT(arena.floats(), apart.floats());
      }
    }
  }
}

TEST(NetworkPlans, ArenasOfAnySpansAreSound) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<Span> spans(1 + random() % 60);
    for (auto& span : spans) {
      span.floats = 32 * (1 + random() % 50);
      span.first = random() % 40;
      span.last = span.first + random() % 10;
    }
    const auto arena = plan_arena(spans);
    expect_apart(spans, arena);
    EXPECT_GE(arena.floats(), most_live(spans));
  }
}

TEST(NetworkPlans, PartsCoverASum) {
  for (const std::size_t k : {1, 27, 32, 33, 64, 147, 1000, 4608}) {
    for (const std::size_t parts : {0, 1, 2, 3, 7, 32, 1000}) {
      Product product{.m = 70, .n = 200, .k = k};
      choose_tiles(product, {.parts = parts});
      EXPECT_EQ(product.depth_of_part % deepest_tile, 0u);
      EXPECT_GE(product.parts * product.depth_of_part, k);
      EXPECT_LT((product.parts - 1) * product.depth_of_part, k) << k << " " << parts;
    }
  }
}

/// Choosing a tile does not change results: the order in which sums are added depends on the shape only.
TEST(NetworkPlans, PartsAreThoseOfTheShapeWithEveryTile) {
  for (const char* name : {"resnet18", "resnet50", "yolov3-tiny", "yolov3"}) {
    for (const std::size_t batch : {1, 32}) {
      const auto steps_of = [&](std::optional<std::size_t> tile) {
        return make_plan(parse_network(network_text(name), name), {.batch = batch, .tile = tile}).steps;
      };
      const auto by_shape = steps_of({});
      for (std::size_t tile = 0; tile < tile_shapes.size(); ++tile) {
        const auto asked = steps_of(tile);
        for (std::size_t s = 0; s < by_shape.size(); ++s) {
          EXPECT_EQ(asked[s].product.parts, by_shape[s].product.parts) << name << " " << batch << " " << s;
          EXPECT_EQ(asked[s].product.depth_of_part, by_shape[s].product.depth_of_part);
          EXPECT_TRUE(by_shape[s].product.k == 0 || asked[s].product.tile == tile);
        }
      }
    }
  }
}

/// Expects that weights never overwrite weights that a step may still need, and that each copy can overlap with a step.
void expect_sound(const std::vector<std::size_t>& floats) {
  const auto ring = plan_ring(floats);
  EXPECT_LE(ring.floats, 3 * *std::max_element(floats.begin(), floats.end()));
  std::size_t offset = 0;
  std::optional<std::size_t> last;  // last step so far that has weights
  for (std::size_t s = 0; s < floats.size(); ++s) {
    const auto& arrival = ring.arrivals[s];
    ASSERT_EQ(arrival.floats, floats[s]);
    if (floats[s] == 0) continue;
    EXPECT_EQ(arrival.offset, offset);
    ASSERT_LE(arrival.place + floats[s], ring.floats);
    for (std::size_t before = 0; before < s; ++before) {
      const auto& other = ring.arrivals[before];
      const bool apart = other.floats == 0 || arrival.place + arrival.floats <= other.place ||
                         other.place + other.floats <= arrival.place;
      if (!apart) {
        ASSERT_TRUE(arrival.after && *arrival.after >= before) << s << " overwrites " << before;
      }
    }
    if (arrival.after) {
      EXPECT_LT(*arrival.after, last.value()) << s;
    }
    offset += floats[s];
    last = s;
  }
}

TEST(NetworkPlans, NoWeightsOverwriteThoseThatAreWanted) {
  for (const auto& name : all_networks) {
    for (const bool fuses : {false, true}) {
      const auto plan = make_plan(described(name), {.fuses = fuses});
      const Parameters parameters(plan, 42);
      const auto floats = parameters.floats_of(plan.steps);
      EXPECT_EQ(std::accumulate(floats.begin(), floats.end(), std::size_t{0}), parameters.floats());
      expect_sound(floats);
    }
  }
}

TEST(NetworkPlans, RingsOfAnyWeightsAreSound) {
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> floats(1 + random() % 60);
    for (auto& of_a_step : floats) of_a_step = random() % 3 == 0 ? 0 : 32 * (1 + random() % (round % 2 == 0 ? 50 : 3));
    expect_sound(floats);
  }
  EXPECT_EQ(plan_ring({0, 0}).floats, 0u);
  EXPECT_EQ(plan_ring({}).floats, 0u);
}

// --- whole networks --------------------------------------------------------------------------------

/// Plain implementation of a network: computes image by image in double precision, in darknet's order, and uses nothing
/// from the program except the description and the parameters.
class PlainNetwork {
 public:
  using Values = std::vector<double>;

  PlainNetwork(const NetworkDescription& network, const Parameters& parameters)
      : network_(network), parameters_(parameters) {}

  Values results(const Values& image) const {
    std::vector<Values> made;
    Values results;
    for (std::size_t l = 0; l < network_.layers.size(); ++l) {
      made.push_back(layer(l, l == 0 ? image : made[l - 1], made));
      if (network_.layers[l].kind == LayerKind::yolo || l + 1 == network_.layers.size())
        results.insert(results.end(), made[l].begin(), made[l].end());
    }
    return results;
  }

 private:
  static double activated(double x, Activation activation) {
    if (activation == Activation::relu) return x < 0 ? 0 : x;
    if (activation == Activation::leaky) return x < 0 ? x / 10 : x;
    if (activation == Activation::logistic) return 1 / (1 + std::exp(-x));
    return x;
  }

  Values layer(std::size_t l, const Values& before, const std::vector<Values>& made) const {
    const Layer& layer = network_.layers[l];
    const Volume &in = layer.in, &out = layer.out;
    Values to(out.size());
    const auto for_all = [&](const std::function<double(std::size_t c, std::size_t y, std::size_t x)>& number) {
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = number(i / out.plane(), i % out.plane() / out.width, i % out.width);
    };
    const auto input = [&](std::size_t c, std::int64_t y, std::int64_t x) -> const double* {
      const bool inside =
          y >= 0 && x >= 0 && y < static_cast<std::int64_t>(in.height) && x < static_cast<std::int64_t>(in.width);
      return inside ? &before[(c * in.height + static_cast<std::size_t>(y)) * in.width + static_cast<std::size_t>(x)]
                    : nullptr;
    };
    const auto& w = layer.window;
    const auto in_window = [&](std::size_t c, std::size_t y, std::size_t x, std::size_t r, std::size_t s) {
      return input(c, static_cast<std::int64_t>(y * w.stride + r) - static_cast<std::int64_t>(w.before),
                   static_cast<std::int64_t>(x * w.stride + s) - static_cast<std::int64_t>(w.before));
    };
    switch (layer.kind) {
      case LayerKind::convolutional:
      case LayerKind::connected:
        for_all([&](std::size_t m, std::size_t y, std::size_t x) {
          double sum = 0;
          for (std::size_t c = 0; c < in.channels; ++c) {
            for (std::size_t r = 0; r < w.height; ++r) {
              for (std::size_t s = 0; s < w.width; ++s) {
                if (const double* value = in_window(c, y, x, r, s))
                  sum += *value * weights_of(l)[((m * in.channels + c) * w.height + r) * w.width + s];
              }
            }
          }
          const auto of = [&](Parameter what) { return double{parameters_.of_channel(l, what, m)}; };
          if (layer.normalize)
            sum = (sum - of(Parameter::means)) / std::sqrt(of(Parameter::variances) + 1e-6) * of(Parameter::scales);
          return activated(sum + of(Parameter::biases), layer.activation);
        });
        break;
      case LayerKind::maxpool:
        for_all([&](std::size_t c, std::size_t y, std::size_t x) {
          double largest = -1e300;
          for (std::size_t r = 0; r < w.height; ++r) {
            for (std::size_t s = 0; s < w.width; ++s) {
              if (const double* value = in_window(c, y, x, r, s)) largest = std::max(largest, *value);
            }
          }
          return largest;
        });
        break;
      case LayerKind::avgpool:
        for (std::size_t i = 0; i < before.size(); ++i)
          to[i / in.plane()] += before[i] / static_cast<double>(in.plane());
        break;
      case LayerKind::shortcut: {
        const auto& from = network_.layers[layer.from[0]].out;
        const std::size_t factor = from.width / out.width;
        for_all([&](std::size_t c, std::size_t y, std::size_t x) {
          double sum = *input(c, static_cast<std::int64_t>(y), static_cast<std::int64_t>(x));
          if (c < from.channels) sum += made[layer.from[0]][(c * from.height + y * factor) * from.width + x * factor];
          return activated(sum, layer.activation);
        });
        break;
      }
      case LayerKind::route:
        to.clear();
        for (const auto from : layer.from) to.insert(to.end(), made[from].begin(), made[from].end());
        break;
      case LayerKind::upsample:
        for_all([&](std::size_t c, std::size_t y, std::size_t x) {
          return *input(c, static_cast<std::int64_t>(y / w.stride), static_cast<std::int64_t>(x / w.stride));
        });
        break;
      case LayerKind::softmax: {
        const double largest = *std::max_element(before.begin(), before.end());
        double sum = 0;
        for (const double x : before) sum += std::exp(x - largest);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::exp(before[i] - largest) / sum;
        break;
      }
      case LayerKind::yolo:
        for (std::size_t i = 0; i < to.size(); ++i) {
          const auto entry = i / in.plane() % layer.entries;
          to[i] = entry == 2 || entry == 3 ? before[i] : activated(before[i], Activation::logistic);
        }
        break;
    }
    return to;
  }
  const std::vector<float>& weights_of(std::size_t l) const {
    if (weights_of_ == l) return weights_;
    const Layer& layer = network_.layers[l];
    weights_.clear();
    for (std::size_t m = 0; m < layer.out.channels; ++m) {
      for (std::size_t c = 0; c < layer.in.channels; ++c) {
        for (std::size_t r = 0; r < layer.window.height; ++r) {
          for (std::size_t s = 0; s < layer.window.width; ++s) weights_.push_back(parameters_.weight(l, m, c, r, s));
        }
      }
    }
    weights_of_ = l;
    return weights_;
  }

  const NetworkDescription& network_;
  const Parameters& parameters_;
  mutable std::vector<float> weights_;
  mutable std::size_t weights_of_ = ~std::size_t{0};
};

class WholeNetworks : public device::EmulatorTest {
 protected:
  static constexpr std::uint64_t seed = 42;

  static void expect_right(const std::string& name, std::size_t side, const PlanOptions& options,
                           const std::shared_ptr<device::Convolutions>& library = nullptr) {
    const auto made = emulated::network(described(name, side), options, seed, library);
    const Network& network = *made;
    const auto results = emulated::results_of(network, seed);
    const PlainNetwork plain(network.plan.network, *network.parameters);
    const std::size_t image = network.plan.network.input.size(), count = network.plan.results;
    for (std::size_t b = 0; b < options.batch; ++b) {
      std::vector<double> values(image);
      for (std::size_t i = 0; i < image; ++i) values[i] = Network::image_value(seed, b * image + i);
      const auto expected = plain.results(values);
      ASSERT_EQ(expected.size(), count);
      double size = 0, off = 0;
      for (std::size_t i = 0; i < count; ++i) {
        size = std::max(size, std::abs(expected[i]));
        off = workload::worst(off, std::abs(results[b * count + i] - expected[i]));
      }
      EXPECT_LE(off, 1e-4 * size) << name << " image " << b;
      // The largest result is neither tiny nor huge: values have not vanished or exploded between layers.
      EXPECT_GT(size, 1e-3) << name;
      EXPECT_LT(size, 1e4) << name;
    }
  }
};

TEST_F(WholeNetworks, SampleIsRight) {
  for (const bool patches : {false, true}) expect_right("sample", 0, {.batch = 3, .patches = patches});
}
TEST_F(WholeNetworks, Resnet18IsRight) {
  for (const bool patches : {false, true}) expect_right("resnet18", 32, {.batch = 2, .patches = patches});
}
TEST_F(WholeNetworks, Resnet50IsRight) {
  for (const bool patches : {false, true}) expect_right("resnet50", 32, {.batch = 1, .patches = patches});
}
TEST_F(WholeNetworks, Yolov3TinyIsRight) {
  for (const bool patches : {false, true}) expect_right("yolov3-tiny", 64, {.batch = 1, .patches = patches});
}
TEST_F(WholeNetworks, Yolov3IsRight) {
  expect_right("yolov3", 32, {.batch = 1});
}

TEST_F(WholeNetworks, AreRightByALibrary) {
  using device::Convolutions;
  const auto expect = [](const char* name, std::size_t side, bool by_image) {
    const auto library = std::make_shared<Convolutions>(Convolutions::Math::fp32, Convolutions::Algorithms::products);
    expect_right(name, side,
                 {.batch = 2,
                  .library = [&](const device::ConvolutionShape& shape) { return plan_by(*library, shape); },
                  .by_image = by_image},
                 library);
  };
  expect("sample", 0, false);
  expect("sample", 0, true);
  expect("yolov3-tiny", 64, false);
  expect("resnet18", 32, true);
}

// --- the program -----------------------------------------------------------------------------------

using microbench::run_cases, microbench::complaint;

class NetworkProgram : public device::OnEmulatedMachine {
 protected:
  static constexpr const char *buffers = "allocation=arena,tensor,inference", *arrive = "allocation=streamed";
  static void expect_pass(const std::vector<std::string>& placements, const std::vector<std::string>& settings,
                          std::size_t count) {
    const auto results = run_cases("apps/network", {"direct", "async"}, placements, settings);
    EXPECT_EQ(results.size(), count);
    for (const auto& result : results) EXPECT_EQ(complaint(result), "") << result.spec.label();
  }
};

TEST_P(NetworkProgram, InEveryPlacement) {
  expect_pass({"pageable", "pinned", "pool", "mapped", "managed_in", "managed", "managed_demand", "managed_advise"},
              {"network=sample", "batch=3", buffers}, 48);
  expect_pass({"pinned", "managed"}, {"network=sample", "convolution=patches", buffers}, 12);
}

// With `grace=0`, copies run as far ahead as they may; with `grace=30`, a copy starts only when its layer waits for it.
TEST_P(NetworkProgram, WeightsArriveLayerByLayer) {
  const std::string path = temporary_path("equals.cfg");
  setenv("ISTHMUS_NETWORK", path.c_str(), 1);
  std::ofstream file(path);
  file << "[net]\nwidth=9\nheight=7\n";
  for (int i = 0; i < 12; ++i) file << "[convolutional]\nfilters=16\nsize=3\npad=1\nbatch_normalize=1\n";
  file.close();
  for (const char* streams : {",grace=0", ",grace=30"}) {
    configure(std::string(GetParam()) + streams);
    expect_pass({"pageable", "pinned", "pool"}, {"network=sample", "batch=2", arrive, "convolution=implicit,patches"},
                12);
    expect_pass({"pageable", "pinned", "pool"}, {"network=file", arrive}, 6);  // the ring wraps three times
    for (const auto& result :
         run_cases("apps/network", {"direct"}, {"pinned"}, {"network=sample", arrive, "convolution=library"}))
      EXPECT_EQ(complaint(result), "") << result.spec.label();
  }
  std::filesystem::remove(path);
  unsetenv("ISTHMUS_NETWORK");
}

TEST_P(NetworkProgram, RecordsSayWhatArrives) {
  const auto value = [](const harness::CaseResult& result, const char* metric) {
    const auto* series = result.find(metric);
    return series != nullptr ? series->samples.at(0) : NAN;
  };
  const auto cases =
      run_cases("apps/network", {"async"}, {"pinned"}, {"network=resnet18", "side=32", "allocation=arena,streamed"});
  ASSERT_EQ(cases.size(), 2u);
  const auto &arena = cases[0], &streamed = cases[1];
  const auto plan = make_plan(described("resnet18", 32), {});
  const Parameters parameters(plan, 42);
  const auto ring = plan_ring(parameters.floats_of(plan.steps));
  EXPECT_EQ(value(streamed, "body_in"), 4.0 * static_cast<double>(parameters.floats()));
  EXPECT_EQ(value(streamed, "ring_bytes"), 4.0 * static_cast<double>(ring.floats));
  EXPECT_EQ(value(streamed, "tensor_bytes"), value(arena, "tensor_bytes"));
  EXPECT_EQ(value(streamed, "allocations"), value(arena, "allocations"));
  EXPECT_EQ(arena.find("ring_bytes"), nullptr);
  EXPECT_EQ(arena.peak_device_bytes - streamed.peak_device_bytes, 4 * (parameters.floats() - ring.floats));
  EXPECT_EQ(streamed.verification.checksums, arena.verification.checksums);
}

TEST_P(NetworkProgram, WeightsArriveOnlyWhereTheyAreCopied) {
  const auto reason = [](const char* placement, const char* submission) {
    return run_cases("apps/network", {"async"}, {placement}, {"network=sample", arrive, submission})
        .at(0)
        .skipped.value_or("");
  };
  for (const char* placement : {"mapped", "managed", "managed_in", "managed_demand", "managed_advise"}) {
    EXPECT_EQ(reason(placement, "submission=automatic").find("buffer weights is copied to the device in parts"), 0u)
        << placement;
  }
  EXPECT_EQ(reason("pinned", "submission=graph").find("a graph contains the work of one stream"), 0u);
}

TEST_P(NetworkProgram, WithEveryTile) {
  expect_pass({"pinned"}, {"network=sample", "tile=all", "parts=0,1,3", "convolution=implicit,patches"}, 48);
}

TEST_P(NetworkProgram, ByALibrary) {
  const auto results = run_cases("apps/network", {"direct"}, {"pinned", "mapped", "managed_demand"},
                                 {"network=sample", "batch=3", "convolution=library", "math=all", "algorithms=all",
                                  "layout=all", "allocation=arena,tensor,inference"});
  EXPECT_EQ(results.size(), 72u);
  for (const auto& result : results) {
    EXPECT_EQ(complaint(result), "") << result.spec.label();
    EXPECT_EQ(result.notes.at("library"), "emulated convolutions");
    const auto label = result.spec.label();
    const std::string algorithm = label.find("products") != std::string::npos ? "loops" : "transforms";
    const std::string math = label.find("tf32") != std::string::npos ? " in tf32" : " in fp32";
    EXPECT_EQ(result.notes.at("algorithms"), algorithm + math + ": layers 0, 2, 3, 5, 8, 13") << label;
  }
}

TEST_P(NetworkProgram, WhatOnlyALibraryHasIsRefused) {
  const auto refusal = [](const char* staging, const std::vector<std::string>& settings) {
    return run_cases("apps/network", {staging}, {"pinned"}, settings).at(0).skipped.value_or("none");
  };
  EXPECT_NE(refusal("direct", {"math=tf32"}).find("our convolutions are strict fp32"), std::string::npos);
  EXPECT_NE(refusal("direct", {"algorithms=products"}).find("use no transforms"), std::string::npos);
  EXPECT_NE(refusal("direct", {"layout=images"}).find("use our tensors"), std::string::npos);
  EXPECT_NE(refusal("async", {"convolution=library"}).find("use staging direct"), std::string::npos);
  EXPECT_NE(refusal("direct", {"convolution=library", "parts=2"}).find("its own tiles"), std::string::npos);
  device::set_injection("convolutions_plan:2:unsupported");
  EXPECT_NE(refusal("direct", {"convolution=library"}).find("convolutions_plan"), std::string::npos);
  device::set_injection("convolutions_create:1:unsupported");
  EXPECT_NE(refusal("direct", {"convolution=library"}).find("convolutions_create"), std::string::npos);
  device::set_injection("");
}

TEST_P(NetworkProgram, LayersThatEnd) {
  const std::string path = temporary_path("ends.cfg");
  setenv("ISTHMUS_NETWORK", path.c_str(), 1);
  const std::string net = "[net]\nwidth=7\nheight=5\nchannels=2\n", convolution = "[convolutional]\nfilters=3\n";
  // Cases: a shortcut at the end, fused with a convolution and not; a network without weights; a network that ends with
  // a route.
  for (const auto& layers :
       {convolution + convolution + "[shortcut]\nfrom=-2\n", convolution + "[maxpool]\nsize=2\n[shortcut]\nfrom=-2\n",
        std::string("[maxpool]\nsize=3\nstride=2\n[avgpool]\n"), convolution + "[maxpool]\nsize=5\n[route]\nlayers=0\n",
        convolution + "[shortcut]\nfrom=-1\nactivation=logistic\n", std::string("[softmax]\n")}) {
    std::ofstream(path) << net << layers;
    expect_pass({"pinned", "managed"}, {"network=file", "batch=1,2", buffers}, 24);
    expect_pass({"pinned"}, {"network=file", "batch=1,2", arrive}, 4);
  }
  std::ofstream(path) << net << "[convolutional]\nfilters=no\n";
  const auto wrong = run_cases("apps/network", {"async"}, {"pinned"}, {"network=file"});
  EXPECT_EQ(wrong.at(0).error.value_or("").find(path + ":6: option 'filters'"), 0u) << complaint(wrong.at(0));
  std::filesystem::remove(path);
  unsetenv("ISTHMUS_NETWORK");
  const auto none = run_cases("apps/network", {"async"}, {"pinned"}, {"network=file"});
  EXPECT_NE(none.at(0).skipped.value_or("").find("set ISTHMUS_NETWORK"), std::string::npos);
}

TEST_P(NetworkProgram, ABatchThatDoesNotFitIsToldWhichDoes) {
  configure("memory=4MiB");
  for (const char* allocation : {"allocation=arena", "allocation=tensor", "allocation=inference", arrive}) {
    for (const char* placement : {"pinned", "mapped", "managed"}) {
      if (allocation == arrive && std::string(placement) != "pinned") continue;
      const auto run = [&](std::size_t batch) {
        return run_cases("apps/network", {"async"}, {placement},
                         {"network=sample", "side=16", allocation, "batch=" + std::to_string(batch)})
            .at(0);
      };
      const auto too_large = run(100000).skipped.value_or("");
      std::smatch number;
      ASSERT_TRUE(std::regex_search(too_large, number, std::regex("; a batch of ([0-9]+) fits$"))) << too_large;
      const auto fits = std::stoul(number[1]);
      EXPECT_EQ(complaint(run(fits)), "") << placement << allocation << fits;
      EXPECT_NE(run(fits + 1).skipped.value_or("").find("; a batch of " + std::to_string(fits) + " fits"),
                std::string::npos)
          << placement << allocation << fits;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, NetworkProgram, testing::Values("warp=32", "warp=64,order=reverse"),
                         [](const auto& machine) { return machine.param[5] == '3' ? "Warp32" : "Warp64Reverse"; });

}  // namespace
}  // namespace isthmus::apps
