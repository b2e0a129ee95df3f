// Writes results of networks on the emulated device, for comparison with oracles that are independent of this source
// tree (papers/tests/networks.py).
//
//   network-numbers text NAME                          the .cfg file of a network that comes with the program
//   network-numbers infer SIDE BATCH       <FILE.cfg   images, parameters and results
//   network-numbers train SIDE BATCH STEPS <FILE.cfg   images, parameters, targets, losses, gradients of each step and
//                                                      learned parameters
//
// infer and train write matrices, each as a line "ROWS COLUMNS NAME" followed by its numbers in fp32, row by row.

#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulated_networks.hpp"

namespace isthmus::apps {
namespace {

constexpr std::uint64_t seed = 42;

void write(const std::string& name, const std::vector<float>& values, std::size_t rows) {
  const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
  std::cout << rows << ' ' << values.size() / rows << ' ' << name << '\n';
  std::cout.write(reinterpret_cast<const char*>(values.data()), bytes);
}

/// Writes a parameter array. Weights have one row per output channel; other arrays have one row.
void write(const std::string& prefix, const Network& network, const ParameterArray& array,
           const std::vector<float>& values) {
  const auto& layer = network.plan.network.layers[array.layer];
  write(prefix + array.name(), values, array.what == Parameter::weights ? layer.out.channels : 1);
}

void write_given(const Network& network) {
  write("images", emulated::images_of(network.plan, seed), network.plan.batch);
  for (const auto& array : network.parameters->arrays())
    write("given ", network, array, emulated::values_of(*network.parameters, array));
}

void infer(NetworkDescription description, std::size_t batch) {
  const auto network = emulated::network(std::move(description), {.batch = batch}, seed);
  write_given(*network);
  write("results", emulated::results_of(*network, seed), batch);
}

void train(NetworkDescription description, std::size_t batch, std::size_t steps) {
  const auto training = emulated::training_network(std::move(description), batch, seed);
  const auto& network = training->network;
  write_given(network);
  write("targets", emulated::targets_of(*training, seed), batch);
  const auto trained = emulated::train(*training, steps, seed);
  write("losses", trained.losses, 1);
  const auto& arrays = network.parameters->arrays();
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    write("learned ", network, arrays[a], trained.values[a]);
    if (arrays[a].what == Parameter::means || arrays[a].what == Parameter::variances) continue;
    for (std::size_t step = 0; step < steps; ++step)
      write("gradients " + std::to_string(step) + ' ', network, arrays[a], trained.gradients[step][a]);
  }
}

void run(std::span<char*> words) {
  const std::string what = words.size() > 1 ? words[1] : "";
  const auto number = [&](std::size_t i) { return std::stoul(words[i]); };
  if (what == "text" && words.size() == 3) {
    std::cout << network_text(words[2]);
    return;
  }
  const bool trains = what == "train" && words.size() == 5;
  if (!trains && (what != "infer" || words.size() != 4))
    throw std::invalid_argument("say 'text NAME', 'infer SIDE BATCH' or 'train SIDE BATCH STEPS'");
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  auto description = parse_network(text, "stdin", number(2));
  if (trains) return train(std::move(description), number(3), number(4));
  infer(std::move(description), number(3));
}

}  // namespace
}  // namespace isthmus::apps

int main(int count, char** words) {
  try {
    isthmus::apps::run({words, static_cast<std::size_t>(count)});
    std::cout.flush();
    return std::cout ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "network-numbers: %s\n", error.what());
    return 2;
  }
}
