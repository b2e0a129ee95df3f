#include "microbench/latency/routes.hpp"

#include <algorithm>

#include "microbench/axes.hpp"

namespace isthmus::microbench::latency {

namespace {

std::string name_of(const From& from) {
  if (from.on_node) return "node" + std::to_string(from.index);
  if (from.kind == Kind::device) return "gpu" + std::to_string(from.index);
  return std::string(name(from.kind));
}

std::string name_of(const To& to) {
  if (to.reader == Reader::gpu) return "gpu" + std::to_string(to.gpu);
  return to.node >= 0 ? "node" + std::to_string(to.node) : "cpu";
}

}  // namespace

std::string Route::name() const {
  return name_of(from) + "-" + name_of(to);
}

std::string Route::summary() const {
  const auto memory =
      from.on_node || from.kind == Kind::device ? "memory of " + name_of(from) : name_of(from) + " memory";
  return "latency of one access of " + name_of(to) + " to " + memory;
}

bool Route::cpu_only() const {
  return from.kind == Kind::pageable && to.reader == Reader::cpu;
}

std::vector<int> Route::gpus() const {
  std::vector<int> list;
  if (to.reader == Reader::gpu) list.push_back(to.gpu);
  if (from.kind == Kind::device && !from.on_node && std::find(list.begin(), list.end(), from.index) == list.end())
    list.push_back(from.index);
  return list;
}

std::vector<Route> routes(const workload::Machine& machine) {
  std::vector<Route> list;
  for (const auto kind : axis_kinds()) {
    if (on_device(kind)) continue;
    list.push_back({{.kind = kind}, {.reader = Reader::cpu}});
    for (int g = 0; g < machine.gpus; ++g) list.push_back({{.kind = kind}, {.reader = Reader::gpu, .gpu = g}});
  }
  for (int g = 0; g < machine.gpus; ++g) {
    list.push_back({{.kind = Kind::pool}, {.reader = Reader::gpu, .gpu = g}});
    list.push_back({{.kind = Kind::device, .index = g}, {.reader = Reader::cpu}});
    for (int owner = 0; owner < machine.gpus; ++owner)
      list.push_back({{.kind = Kind::device, .index = owner}, {.reader = Reader::gpu, .gpu = g}});
  }
  for (const int memory : machine.memory_nodes) {
    for (const int reader : machine.memory_nodes)
      list.push_back({{.on_node = true, .index = memory}, {.reader = Reader::cpu, .node = reader}});
  }
  return list;
}

int reading_processor(const std::vector<int>& of_node, const std::vector<int>& of_all) {
  if (!of_node.empty()) return of_node.front();
  return of_all.empty() ? -1 : of_all.front();
}

}  // namespace isthmus::microbench::latency
