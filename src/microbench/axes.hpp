#pragma once

// Axes of the microbenchmarks.

#include <cstdint>
#include <vector>

#include "memory/block.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

constexpr std::int64_t kKi = 1024, kMi = kKi * kKi, kGi = kKi * kMi;

using workload::bytes_axis, workload::choice_axis, workload::number_axis, workload::powers;

inline workload::Axis node_axis(
    const workload::Machine& machine,
    const char* help = "NUMA node of host memory and of the copying thread; -1: the GPU's own") {
  auto axis = number_axis("node", help, -1, -1);
  for (const int node : machine.memory_nodes) axis.all_values.emplace_back(node);
  return axis;
}

/// Returns the values of an axis `memory`: kinds that both CPU and GPU may be able to access, in the order of
/// all_kinds().
inline std::vector<memory::Kind> axis_kinds() {
  std::vector<memory::Kind> kinds;
  for (const auto& row : memory::all_kinds()) {
    if (row.kind != memory::Kind::vmm) kinds.push_back(row.kind);
  }
  return kinds;
}
inline memory::Kind kind_of(const workload::Case& c) {
  return memory::kind_named(c.choice("memory"));
}

/// Returns the value of the axis `pages`: standard, small or huge.
inline memory::Pages pages_of(const workload::Case& c) {
  const auto choice = c.choice("pages");
  return choice == "huge" ? memory::Pages::huge : choice == "small" ? memory::Pages::small : memory::Pages::standard;
}

}  // namespace isthmus::microbench
