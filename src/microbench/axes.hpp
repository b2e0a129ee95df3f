#pragma once

// Axes as the microbenchmarks spell them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/workload.hpp"
#include "memory/host_block.hpp"

namespace isthmus::microbench {

constexpr std::int64_t kKi = 1024, kMi = kKi * kKi, kGi = kKi * kMi;

inline harness::Axis number_axis(std::string name, std::string help, std::int64_t value, std::int64_t minimum = 1) {
  return {.name = std::move(name), .help = std::move(help), .default_value = value, .allowed = {}, .minimum = minimum};
}

inline harness::Axis bytes_axis(std::string name, std::string help, std::int64_t value, std::int64_t minimum = 1) {
  auto axis = number_axis(std::move(name), std::move(help), value, minimum);
  axis.bytes = true;
  return axis;
}

/// The first value is the default.
inline harness::Axis choice_axis(std::string name, std::string help, std::vector<harness::AxisValue> allowed) {
  auto first = allowed.front();
  return {.name = std::move(name), .help = std::move(help), .default_value = first, .allowed = std::move(allowed)};
}

inline harness::Axis node_axis(const harness::Machine& machine) {
  auto axis = number_axis("node", "NUMA node of host memory and of the thread that copies; -1: the GPU's own", -1, -1);
  for (const int node : machine.memory_nodes) axis.listed.emplace_back(std::int64_t{node});
  return axis;
}

/// Powers of two.
inline std::vector<harness::AxisValue> powers(std::int64_t from, std::int64_t to) {
  std::vector<harness::AxisValue> values;
  for (std::int64_t bytes = from; bytes <= to; bytes *= 2) values.emplace_back(bytes);
  return values;
}

/// What the axis `pages` asks for: standard, small or huge.
inline memory::Pages pages_of(const harness::Case& c) {
  const auto choice = c.choice("pages");
  return choice == "huge" ? memory::Pages::huge : choice == "small" ? memory::Pages::small : memory::Pages::standard;
}

}  // namespace isthmus::microbench
