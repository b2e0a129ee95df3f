// Tests of training: gradients against finite differences of a plain network in double precision, falling losses, and
// the program.

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <regex>

#include "../emulated_machine.hpp"
#include "../microbench/catalogue.hpp"
#include "emulated_networks.hpp"
#include "workload/worst.hpp"

namespace isthmus::apps {
namespace {

using Values = std::vector<double>;

constexpr std::uint64_t seed = 42;

/// Plain implementation of a batch's loss in double precision: loops over images and channels, and uses nothing from
/// the plan except its numbers.
class PlainTraining {
 public:
  explicit PlainTraining(const TrainingNetwork& training)
      : training_(training), layers_(training.network.plan.network.layers), batch_(training.network.plan.batch) {
    const auto& parameters = *training.network.parameters;
    for (const auto& array : parameters.arrays()) {
      auto& values = values_.emplace_back(array.count);
      for (std::size_t i = 0; i < array.count; ++i) values[i] = parameters(array, i);
    }
  }
  double& value(std::size_t array, std::size_t i) { return values_[array][i]; }

  double loss() const {
    const auto& plan = training_.network.plan;
    std::vector<Values> made;  // outputs of each layer, image by image, channel by channel
    Values images(batch_ * plan.network.input.size());
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = Network::image_value(seed, i);
    double loss = 0;
    std::size_t before = 0;  // number of an image's results from earlier layers
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      made.push_back(layer(l, l == 0 ? images : made[l - 1], made));
      const bool is_last = l + 1 == layers_.size();
      if (layers_[l].kind != LayerKind::yolo && !is_last) continue;
      const auto size = layers_[l].out.size();
      for (std::size_t i = 0; i < made[l].size(); ++i) {
        const double target = training_.target(seed, i / size * plan.results + before + i % size), x = made[l][i];
        loss += layers_[l].kind == LayerKind::softmax ? -target * std::log(x)
                                                      : (x - target) * (x - target) / 2 / static_cast<double>(size);
      }
      before += size;
    }
    return loss / static_cast<double>(batch_);
  }

 private:
  static double activated(double x, Activation activation) {
    if (activation == Activation::relu) return x < 0 ? 0 : x;
    if (activation == Activation::leaky) return x < 0 ? x * double{0.1f} : x;
    return activation == Activation::logistic ? 1 / (1 + std::exp(-x)) : x;
  }

  Values layer(std::size_t l, const Values& before, const std::vector<Values>& made) const {
    const Layer& layer = layers_[l];
    const Volume &in = layer.in, &out = layer.out;
    const auto& w = layer.window;
    Values to(batch_ * out.size());
    const auto for_all =
        [&](const std::function<double(std::size_t b, std::size_t c, std::size_t y, std::size_t x)>& f) {
          for (std::size_t i = 0; i < to.size(); ++i) {
            const auto at = i % out.size();
            to[i] = f(i / out.size(), at / out.plane(), at % out.plane() / out.width, at % out.width);
          }
        };
    const auto number = [](const Values& of, const Volume& shape, std::size_t b, std::size_t c, std::size_t y,
                           std::size_t x) {
      return of[((b * shape.channels + c) * shape.height + y) * shape.width + x];
    };
    const auto for_window = [&](std::size_t y, std::size_t x, const auto& visit) {
      for (std::size_t r = 0; r < w.height; ++r) {
        for (std::size_t s = 0; s < w.width; ++s) {
          const std::size_t row = y * w.stride + r - w.before, column = x * w.stride + s - w.before;
          if (row < in.height && column < in.width) visit(row, column, r * w.width + s);
        }
      }
    };
    switch (layer.kind) {
      case LayerKind::convolutional:
      case LayerKind::connected: {
        const auto array = [&](Parameter what) -> const Values& {
          return values_[training_.network.parameters->index_of(l, what)];
        };
        const auto& weights = array(Parameter::weights);
        for_all([&](std::size_t b, std::size_t m, std::size_t y, std::size_t x) {
          double sum = 0;
          for_window(y, x, [&](std::size_t row, std::size_t column, std::size_t place) {
            for (std::size_t c = 0; c < in.channels; ++c)
              sum +=
                  number(before, in, b, c, row, column) * weights[m * weights_pitch(layer) + place * in.channels + c];
          });
          return sum;
        });
        for (std::size_t m = 0; m < out.channels; ++m) {
          double mean = 0, variance = 0;
          const auto count = static_cast<double>(batch_ * out.plane());
          const auto for_channel = [&](const auto& visit) {
            for (std::size_t i = 0; i < to.size(); ++i)
              if (i % out.size() / out.plane() == m) visit(to[i]);
          };
          for_channel([&](double x) { mean += x / count; });
          for_channel([&](double x) { variance += (x - mean) * (x - mean) / count; });
          for_channel([&](double& x) {
            if (layer.normalize) x = (x - mean) / std::sqrt(variance + 1e-6) * array(Parameter::scales)[m];
            x = activated(x + array(Parameter::biases)[m], layer.activation);
          });
        }
        break;
      }
      case LayerKind::maxpool:
        for_all([&](std::size_t b, std::size_t c, std::size_t y, std::size_t x) {
          double largest = -1e300;
          for_window(y, x, [&](std::size_t row, std::size_t column, std::size_t) {
            largest = std::max(largest, number(before, in, b, c, row, column));
          });
          return largest;
        });
        break;
      case LayerKind::avgpool:
        for (std::size_t i = 0; i < before.size(); ++i)
          to[i / in.plane()] += before[i] / static_cast<double>(in.plane());
        break;
      case LayerKind::shortcut: {
        const auto& from = layers_[layer.from[0]].out;
        const std::size_t factor = from.width / out.width;
        for_all([&](std::size_t b, std::size_t c, std::size_t y, std::size_t x) {
          const double more = c < from.channels ? number(made[layer.from[0]], from, b, c, y * factor, x * factor) : 0;
          return activated(number(before, in, b, c, y, x) + more, layer.activation);
        });
        break;
      }
      case LayerKind::route:
        for_all([&](std::size_t b, std::size_t c, std::size_t y, std::size_t x) {
          std::size_t i = 0;
          for (; c >= layers_[layer.from[i]].out.channels; ++i) c -= layers_[layer.from[i]].out.channels;
          return number(made[layer.from[i]], layers_[layer.from[i]].out, b, c, y, x);
        });
        break;
      case LayerKind::upsample:
        for_all([&](std::size_t b, std::size_t c, std::size_t y, std::size_t x) {
          return number(before, in, b, c, y / w.stride, x / w.stride);
        });
        break;
      case LayerKind::softmax:
        for (std::size_t b = 0; b < batch_; ++b) {
          double sum = 0;
          for (std::size_t i = 0; i < in.size(); ++i) sum += std::exp(before[b * in.size() + i]);
          for (std::size_t i = 0; i < in.size(); ++i) to[b * in.size() + i] = std::exp(before[b * in.size() + i]) / sum;
        }
        break;
      case LayerKind::yolo:
        for (std::size_t i = 0; i < to.size(); ++i) {
          const auto entry = i % out.size() / in.plane() % layer.entries;
          to[i] = entry == 2 || entry == 3 ? before[i] : activated(before[i], Activation::logistic);
        }
        break;
    }
    return to;
  }

  const TrainingNetwork& training_;
  const std::vector<Layer>& layers_;
  const std::size_t batch_;
  std::vector<Values> values_{};  // values of each parameter array
};

class WholeNetworksTraining : public device::EmulatorTest {
 protected:
  static std::unique_ptr<TrainingNetwork> network(const std::string& text, std::size_t batch) {
    return emulated::training_network(parse_network(text, "x.cfg"), batch, seed);
  }

  static void expect_right_gradients(const std::string& text, std::size_t batch) {
    const auto training = network(text, batch);
    const auto trained = emulated::train(*training, 1, seed);
    PlainTraining plain(*training);
    EXPECT_NEAR(trained.losses[0], plain.loss(), 1e-5 * plain.loss());
    const auto& arrays = training->network.parameters->arrays();
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      const auto& array = arrays[a];
      if (array.what == Parameter::means || array.what == Parameter::variances) continue;
      double largest = 0, off = 0;
      for (const std::size_t i : {std::size_t{0}, array.count / 3, array.count / 2, array.count - 1}) {
        const auto& layer = training->network.plan.network.layers[array.layer];
        if (array.what == Parameter::weights && i % weights_pitch(layer) >= layer.depth()) continue;
        constexpr double step = 1e-6;
        double& value = plain.value(a, i);
        const double old = value;
        value = old + step;
        const double above = plain.loss();
        value = old - step;
        const double difference = (above - plain.loss()) / (2 * step);
        value = old;
        largest = std::max(largest, std::abs(difference));
        off = workload::worst(off, std::abs(difference - trained.gradients[0][a][i]));
      }
      EXPECT_LE(off, 2e-3 * largest + 2e-6) << array.name();
    }
  }
};

TEST_F(WholeNetworksTraining, GradientsAreFiniteDifferences) {
  expect_right_gradients(network_text("sample"), 2);
  const std::string net = "[net]\nwidth=7\nheight=6\nchannels=2\n";
  const std::string convolution = "[convolutional]\nfilters=5\nsize=3\nstride=2\npad=1\nactivation=logistic\n";
  expect_right_gradients(net + convolution, 3);
  for (const char* window : {"size=1\nstride=2\n", "size=2\nstride=3\npadding=1\n", "size=4\nstride=2\npad=1\n"})
    expect_right_gradients(net + "[convolutional]\nfilters=4\nsize=3\npad=1\n[convolutional]\nfilters=3\n" + window, 2);
  expect_right_gradients(net + convolution + "[shortcut]\nfrom=-1\nactivation=leaky\n", 2);
  expect_right_gradients(net + convolution + "[route]\nlayers=-1,-1\n[connected]\noutput=4\nactivation=relu\n", 2);
}

TEST_F(WholeNetworksTraining, LossesFall) {
  const auto losses = emulated::train(*network(network_text("sample"), 2), 20, seed).losses;
  EXPECT_LT(losses.back(), 0.2f * losses.front());
  for (std::size_t step = 4; step < losses.size(); step += 4) EXPECT_LT(losses[step], losses[step - 4]) << step;
}

// The kernels count threads in 32 bits, so an update of 2^32 parameters must be refused.
TEST_F(WholeNetworksTraining, RefusesWhatAnUpdateCannotCount) {
  const auto plan = [](int outputs) {
    const auto text = "[net]\nwidth=1\nheight=1\nchannels=65535\n[connected]\noutput=" + std::to_string(outputs) + "\n";
    return make_training_plan(parse_network(text, "x.cfg"), 1);
  };
  plan(65533);
  try {
    plan(65535);
    FAIL() << "an update of 2^32 threads";
  } catch (const workload::Skip& skip) {
    EXPECT_NE(std::string(skip.what()).find("use fewer outputs"), std::string::npos) << skip.what();
  }
}

TEST_F(WholeNetworksTraining, PlansKeepApartWhatIsWantedAtOnce) {
  for (const std::string name : {"sample", "resnet18", "resnet50", "yolov3-tiny", "yolov3"}) {
    const auto plan = make_training_plan(parse_network(network_text(name), name), 2);
    const auto spans = spans_of(plan.plan);
    for (const char* allocation : {"arena", "tensor"}) {
      const auto memory = plan_memory(plan.plan, allocation);
      for (std::size_t a = 0; a < spans.size(); ++a) {
        const auto [buffer, begin] = memory.places[a];
        ASSERT_LE(begin + spans[a].floats, memory.buffers[buffer]) << name;
        for (std::size_t b = 0; b < a; ++b) {
          const auto& other = memory.places[b];
          if (other.buffer != buffer || !spans[a].meets(spans[b])) continue;
          ASSERT_TRUE(begin + spans[a].floats <= other.offset || other.offset + spans[b].floats <= begin)
              << name << " " << allocation << " " << a << " " << b;
        }
      }
    }
  }
}

TEST_F(WholeNetworksTraining, TheWayBackOfAConvolutionMultipliesAsOftenAsItsWayForward) {
  for (const std::string name : {"resnet18", "resnet50", "yolov3-tiny", "yolov3"}) {
    const auto plan = make_training_plan(parse_network(network_text(name), name), 4);
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const auto& back = plan.steps[s];
      if (back.data.m == 0) continue;  // images need no gradient
      EXPECT_EQ(back.data.flops(), plan.plan.steps[s].product.flops()) << name << " " << s;
    }
  }
}

// --- the program -----------------------------------------------------------------------------------

using microbench::run_cases, microbench::complaint;

class NetworkProgramTraining : public device::OnEmulatedMachine {};

TEST_P(NetworkProgramTraining, InEveryPlacement) {
  const auto expect_pass = [](const std::vector<std::string>& placements, const std::string& allocation,
                              std::size_t count) {
    const auto results = run_cases("apps/network_training", {"direct", "async"}, placements,
                                   {"network=sample", "batch=2", "steps=2", "allocation=" + allocation});
    EXPECT_EQ(results.size(), count);
    for (const auto& result : results) EXPECT_EQ(complaint(result), "") << result.spec.label();
  };
  expect_pass({"pinned", "mapped", "managed"}, "arena", 6);
  expect_pass({"pinned"}, "tensor", 2);
}

TEST_P(NetworkProgramTraining, ABatchThatDoesNotFitIsToldWhichDoes) {
  configure("memory=4MiB");
  const auto run = [&](std::size_t batch) {
    return run_cases("apps/network_training", {"async"}, {"pinned"},
                     {"network=sample", "side=16", "batch=" + std::to_string(batch)})
        .at(0);
  };
  const auto too_large = run(10000).skipped.value_or("");
  std::smatch number;
  ASSERT_TRUE(std::regex_search(too_large, number, std::regex("; a batch of ([0-9]+) fits$"))) << too_large;
  EXPECT_FALSE(run(std::stoul(number[1])).skipped);
  EXPECT_TRUE(run(std::stoul(number[1]) + 1).skipped);
}

INSTANTIATE_TEST_SUITE_P(Machines, NetworkProgramTraining, testing::Values("warp=32", "warp=64,order=reverse"),
                         [](const auto& machine) { return machine.param[5] == '3' ? "Warp32" : "Warp64Reverse"; });

}  // namespace
}  // namespace isthmus::apps
