#pragma once

// Graphs, the input of several programs: generated from the seed, or read from a file of the GAP benchmark suite.
// docs/graphs.md describes them.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "memory/parallel.hpp"
#include "workload/input_file.hpp"

namespace isthmus::apps {

using Vertex = std::uint32_t;
using Weight = std::uint32_t;
inline constexpr std::uint64_t most_vertices = std::uint64_t{1} << 31;  ///< exclusive upper bound

/// Properties of a graph that are known before it is generated or read.
struct GraphShape {
  std::size_t vertices = 0, edges = 0;  ///< directed edges: an undirected one counts twice
  bool weighted = false;
};

/// Graph in compressed rows: the edges of v are [offsets[v], offsets[v + 1]).
struct Graph {
  GraphShape shape{};
  std::unique_ptr<std::uint64_t[]> offsets{};
  std::unique_ptr<Vertex[]> edges{};
  std::unique_ptr<Weight[]> weights{};  ///< one per edge; null if the graph has no weights
};

/// Range of the weights that programs compute for graphs without weights, as in GAP.
inline constexpr Weight least_weight = 1, most_weight = 255;

enum class GraphKind {
  uniform,     ///< each end of an edge is a uniformly random vertex, as in GAP's uniform random graph
  kronecker,   ///< R-MAT with .57, .19, .19, .05, as in GAP's Kronecker graph
  friendster,  ///< stand-in with vertices, edges and a largest degree like those of the graph with this name
  moliere,     ///< stand-in of the same kind
};

/// Returns the shape of a graph. At `scale` 27, graphs have their published sizes; each step below 27 halves the sizes.
GraphShape shape_of(GraphKind kind, int scale);
/// Generates an undirected graph with sorted rows, the same on any machine. Loops and duplicate edges are kept, so that
/// the shape is known beforehand.
Graph make_graph(GraphKind kind, int scale, std::uint64_t seed);

/// Reads the shape, or the graph, from a file in the layout of GAP's .sg, or of .wsg if it has that extension. Throws
/// std::runtime_error with one sentence.
GraphShape shape_of_file(const workload::InputFile& file);
Graph load_graph(const workload::InputFile& file);

/// Returns the number of components, connected along edges in either direction; uses all of the host's processors.
std::size_t count_components(const Graph& graph);

// Serial references.
inline constexpr std::uint32_t unreached = 0x7f7f7f7f;  ///< distance of an unreached vertex; a byte fill can set it

/// Computes distances from the source by Dijkstra's algorithm; weight(from, edge) is the weight of an edge.
template <class WeightOf>
void distances_from(const Graph& graph, Vertex source, const WeightOf& weight, std::uint32_t* distance) {
  using Reached = std::pair<std::uint32_t, Vertex>;
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> next;
  std::fill_n(distance, graph.shape.vertices, unreached);
  const auto reach = [&](Vertex v, std::uint64_t there) {
    if (there >= distance[v]) return;
    distance[v] = static_cast<std::uint32_t>(there);
    next.emplace(distance[v], v);
  };
  for (reach(source, 0); !next.empty();) {
    const auto [so_far, v] = next.top();
    next.pop();
    if (so_far != distance[v]) continue;
    for (auto e = graph.offsets[v]; e < graph.offsets[v + std::size_t{1}]; ++e)
      reach(graph.edges[e], std::uint64_t{so_far} + weight(v, e));
  }
}
/// Sets each vertex's label to the smallest vertex of its component.
void smallest_of_component(const Graph& graph, std::uint32_t* label);

/// Returns the number of violations of the definition of distances, found in one sweep over the edges: a source whose
/// distance is not 0, an edge that would shorten a distance, and a reached vertex whose distance no edge explains.
/// Every weight must be at least 1.
template <class WeightOf>
double count_distance_errors(const Graph& graph, Vertex source, const WeightOf& weight, const std::uint32_t* distance) {
  constexpr std::size_t grain = 1 << 14;
  const std::size_t n = graph.shape.vertices;
  std::atomic<std::size_t> errors = distance[source] == 0 ? 0 : 1;
  std::vector<unsigned char> explained(n);
  const auto explain = [&](Vertex v) { std::atomic_ref(explained[v]).store(1, std::memory_order_relaxed); };
  explain(source);
  memory::parallel_for(n, grain, [&](std::size_t first, std::size_t last) {
    std::size_t found = 0;
    for (std::size_t v = first; v < last; ++v) {
      if (distance[v] > unreached) ++found;
      if (distance[v] >= unreached) continue;
      for (auto e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
        const Vertex to = graph.edges[e];
        const std::uint64_t there = std::uint64_t{distance[v]} + weight(static_cast<Vertex>(v), e);
        if (distance[to] > there) ++found;
        if (distance[to] == there) explain(to);
      }
    }
    errors += found;
  });
  memory::parallel_for(n, grain, [&](std::size_t first, std::size_t last) {
    std::size_t found = 0;
    for (std::size_t v = first; v < last; ++v) found += (distance[v] != unreached) != (explained[v] != 0) ? 1 : 0;
    errors += found;
  });
  return static_cast<double>(errors);
}

/// Returns the number of violations of the definition of components: an edge whose ends have different labels, a label
/// that is not a vertex with that label, and a number of labels other than `components`.
double count_component_errors(const Graph& graph, std::size_t components, const std::uint32_t* label);

}  // namespace isthmus::apps
