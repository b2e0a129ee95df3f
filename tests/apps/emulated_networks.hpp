#pragma once

// Runs whole networks on the emulated device with the same steps as apps/network, and returns their results for images
// generated from a seed, or what they learn from these images.

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/network_training/training.hpp"

namespace isthmus::apps::emulated {

/// Allocates device memory that is freed with this object.
class Held {
 public:
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    for (void* pointer : pointers_) device::free_device(pointer);
  }
  float* operator()(const std::vector<float>& values) {
    const auto bytes = values.size() * sizeof(float);
    pointers_.push_back(device::malloc_device(bytes));
    device::copy(pointers_.back(), values.data(), bytes);
    return static_cast<float*>(pointers_.back());
  }

 private:
  std::vector<void*> pointers_{};
};

inline std::vector<float> copied(const float* from, std::size_t floats) {
  std::vector<float> values(floats);
  device::copy(values.data(), from, floats * sizeof(float));
  return values;
}

inline std::vector<float> images_of(const Plan& plan, std::uint64_t seed) {
  std::vector<float> images(plan.batch * plan.network.input.size());
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = Network::image_value(seed, i);
  return images;
}

inline std::vector<float> targets_of(const TrainingNetwork& training, std::uint64_t seed) {
  std::vector<float> targets(training.network.plan.batch * training.network.plan.results);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = training.target(seed, i);
  return targets;
}

inline std::vector<float> values_of(const Parameters& parameters, const ParameterArray& array) {
  std::vector<float> values(array.count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = parameters(array, i);
  return values;
}

inline std::unique_ptr<Network> network(NetworkDescription description, const PlanOptions& options, std::uint64_t seed,
                                        const std::shared_ptr<device::Convolutions>& library = nullptr) {
  auto plan = make_plan(std::move(description), options);
  auto memory = plan_memory(plan, "arena");
  return std::make_unique<Network>(std::move(plan), std::move(memory), seed, library);
}

inline std::unique_ptr<TrainingNetwork> training_network(NetworkDescription description, std::size_t batch,
                                                         std::uint64_t seed) {
  auto plan = make_training_plan(std::move(description), batch);
  auto memory = plan_memory(plan.plan, "arena");
  return std::make_unique<TrainingNetwork>(std::move(plan), std::move(memory), seed);
}

/// Returns the results, image by image.
inline std::vector<float> results_of(const Network& network, std::uint64_t seed) {
  const auto& plan = network.plan;
  Held held;
  const std::size_t results = plan.batch * plan.results;
  Addresses at{.images = held(images_of(plan, seed)), .results = held(std::vector<float>(results, NAN))};
  for (const auto& array : network.parameters->arrays())
    at.parameters.push_back(held(values_of(*network.parameters, array)));
  for (const auto floats : network.memory.buffers) at.buffers.push_back(held(std::vector<float>(floats, NAN)));
  {
    device::Stream stream;
    PlainLauncher launcher{stream};
    Forward(network, at, TileStaging::async, launcher).queue();
    stream.synchronize();
  }
  return copied(at.results, results);
}

/// Outcome of several steps of training.
struct Trained {
  std::vector<float> losses{};
  std::vector<std::vector<std::vector<float>>> gradients{};  ///< gradients of each step and array
  std::vector<std::vector<float>> values{};                  ///< values of each array after the last step
};

inline Trained train(const TrainingNetwork& training, std::size_t steps, std::uint64_t seed) {
  const auto& plan = training.network.plan;
  Held held;
  TrainingAddresses at{.targets = held(targets_of(training, seed)), .losses = held(std::vector<float>(steps, NAN))};
  at.forward.images = held(images_of(plan, seed));
  const auto& arrays = training.network.parameters->arrays();
  for (const auto& array : arrays) {
    at.values.push_back(held(values_of(*training.network.parameters, array)));
    at.forward.parameters.push_back(at.values.back());
    at.velocities.push_back(held(std::vector<float>(array.count)));
    at.gradients.push_back(held(std::vector<float>(array.count, NAN)));
  }
  for (const auto floats : training.network.memory.buffers)
    at.forward.buffers.push_back(held(std::vector<float>(floats, NAN)));
  const auto fetched = [&](const std::vector<float*>& from) {
    std::vector<std::vector<float>> values;
    for (std::size_t a = 0; a < arrays.size(); ++a) values.push_back(copied(from[a], arrays[a].count));
    return values;
  };
  Trained trained;
  device::Stream stream;
  PlainLauncher launcher{stream};
  Training queue(training, at, TileStaging::async, launcher);
  for (std::size_t step = 0; step < steps; ++step) {
    queue.queue(step);
    stream.synchronize();
    trained.gradients.push_back(fetched(at.gradients));
  }
  trained.losses = copied(at.losses, steps);
  trained.values = fetched(at.values);
  return trained;
}

}  // namespace isthmus::apps::emulated
