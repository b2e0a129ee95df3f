// Shortest paths from one vertex over weighted edges; vertices near the source are processed first.

#include "apps/graph_program.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

using Distance = std::uint32_t;

/// Returns the weight of an edge in a graph without weights: the same in both directions, 1 … 255 as in GAP.
__host__ __device__ inline Weight weight_of(std::uint32_t seed, Vertex a, Vertex b) {
  std::uint32_t z = (a < b ? a : b) * 0x9e3779b1u + (a < b ? b : a) * 0x85ebca77u + seed;
  z = (z ^ z >> 15) * 0x2c1b3c6du;
  z = (z ^ z >> 12) * 0x297a2d39u;
  z ^= z >> 15;
  return least_weight + ((z >> 16) * (most_weight - least_weight + 1) >> 16);
}

__device__ inline Vertex target_of(Vertex edge) {
  return edge;
}
__device__ inline Vertex target_of(const WeightedEdge& edge) {
  return edge.to;
}
__device__ inline Weight weight_along(std::uint32_t seed, Vertex from, Vertex to) {
  return weight_of(seed, from, to);
}
__device__ inline Weight weight_along(std::uint32_t, Vertex, const WeightedEdge& edge) {
  return edge.weight;
}

__global__ void sssp_start(Vertex source, Distance* distance, unsigned* waiting) {
  distance[source] = 0;
  waiting[source / 32] = 1u << source % 32;
}

/// Selects the waiting vertices whose distance is below the limit, and marks them as no longer waiting.
struct Nearest {
  const Distance* distance;
  unsigned* waiting;
  Distance limit;
  Distance least = unreached;  ///< smallest distance among this lane's vertices that keep waiting

  __device__ bool takes(std::uint64_t v, bool inside) {
    const unsigned word = inside ? waiting[v / 32] : 0;
    const bool waits = (word >> v % 32 & 1) != 0;
    const Distance own = waits ? distance[v] : unreached;
    const bool taken = waits && own < limit;
    const device::LaneMask all = device::ballot(device::full_warp(), taken);
    const unsigned gone = static_cast<unsigned>(all >> (device::lane() / 32 * 32));
    if (inside && v % 32 == 0 && gone != 0) waiting[v / 32] = word & ~gone;
    if (!taken && own < least) least = own;
    return taken;
  }
  __device__ void finish(Counts* counts) const {
    Distance of_warp = least;
    for (int bits = device::warp_size() / 2; bits > 0; bits /= 2) {
      const Distance other = device::shuffle_xor(device::full_warp(), of_warp, bits);
      if (other < of_warp) of_warp = other;
    }
    if (device::lane() == 0 && of_warp < unreached) atomicMin(&counts->least, static_cast<unsigned long long>(of_warp));
  }
};

// for (v : frontier)
//   for (e = offsets[v]; e < offsets[v + 1]; ++e)
//     if (distance[v] + weight[e] < distance[edges[e]]) distance[edges[e]] = distance[v] + weight[e], waiting +=
//     edges[e];
template <class Edge, unsigned in_flight, class Pieces, class Edges>
__device__ __forceinline__ void relax(const Pieces& frontier, Counts* counts, Edges& edges, std::uint32_t seed,
                                      Distance* distance, unsigned* waiting) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *counts = no_counts();
  struct From {
    Vertex vertex;
    Distance distance;
  };
  for_edges<Edge, in_flight>(
      frontier, edges,
      [&](bool mine, Vertex v) { return From{v, mine ? device::load_relaxed(distance + v) : unreached}; },
      [&](const From& own, const unsigned(&owner)[in_flight], bool(&is)[in_flight], const Edge(&edge)[in_flight]) {
        Distance there[in_flight];
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j) {
          const auto of = static_cast<int>(owner[j]);
          const Vertex from = device::shuffle(device::full_warp(), own.vertex, of);
          there[j] = device::shuffle(device::full_warp(), own.distance, of);
          if (is[j]) there[j] += weight_along(seed, from, edge[j]);
        }
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j)
          is[j] = is[j] && there[j] < device::load_relaxed(distance + target_of(edge[j]));
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j) {
          if (!is[j]) continue;
          const Vertex to = target_of(edge[j]);
          if (there[j] >= atomicMin(distance + to, there[j])) continue;
          const unsigned bit = 1u << to % 32;
          if ((device::load_relaxed(waiting + to / 32) & bit) == 0) atomicOr(waiting + to / 32, bit);
        }
      });
}

template <class Edge>
__global__ void __launch_bounds__(threads, resident)
    sssp_relax(Frontier frontier, Counts* counts, const Edge* edges, std::uint32_t seed, Distance* distance,
               unsigned* waiting) {
  Near<Edge> near{edges};
  relax<Edge, 4>(frontier, counts, near, seed, distance, waiting);
}

// Does the same as sssp_relax for edges that the host packed.
template <class Edge>
__global__ void __launch_bounds__(threads, resident)
    sssp_relax_packed(PackedFrontier frontier, Counts* counts, const Edge* edges, std::uint32_t seed,
                      Distance* distance, unsigned* waiting) {
  Near<Edge> near{edges};
  relax<Edge, 4>(frontier, counts, near, seed, distance, waiting);
}

// Does the same as sssp_relax for edges in pages, which a warp fetches.
template <class Edge>
__global__ void __launch_bounds__(threads, resident_of_pages)
    sssp_relax_pages(Frontier frontier, Counts* counts, paging::Array<Edge> edges, std::uint32_t seed,
                     Distance* distance, unsigned* waiting) {
  auto reader = edges.reader(paging::Lanes::full_warp());
  relax<Edge, 8 * sizeof(Vertex) / sizeof(Edge)>(frontier, counts, reader, seed, distance, waiting);
}

template <class Edge>
void search(Case& c, const GraphCase<Edge>& g) {
  const std::size_t n = g.shape.vertices, sources = c.extent("sources");
  const auto delta = static_cast<std::uint64_t>(c.integer("delta"));
  const auto seed = static_cast<std::uint32_t>(hash(c.seed(), 18, 0));
  auto distance = c.scratch<Distance>("ways", n);
  auto distances = c.output<Distance>("distance", n);
  auto waiting = c.scratch<unsigned>("waiting", (n + 31) / 32);

  verify_distances(c, g, distances, [graph = g.graph, seed](Vertex from, std::uint64_t e) {
    return graph->weights ? graph->weights[e] : weight_of(seed, from, graph->edges[e]);
  });

  c.repeats(sources);
  c.measure(
      Control::waits,
      [=, of = c.seed()](Run& run) {
        if (run.repeat() == 0) g.prepare(run);
        run.fill(distance, 0x7f);
        run.fill(waiting, 0);
        run.launch(ISTHMUS_KERNEL(sssp_start), {}, {}, source_of(*g.graph, of, run.repeat()), distance.device(),
                   waiting.device());
        for (std::uint64_t limit = delta;;) {
          const Counts found = g.gather(run, ISTHMUS_KERNEL(gather_frontier<Nearest>),
                                        Nearest{distance.device(), waiting.device(),
                                                static_cast<Distance>(std::min<std::uint64_t>(limit, unreached))});
          if (found.pieces > 0) {
            g.expand(run, found, ISTHMUS_KERNEL(sssp_relax<Edge>), ISTHMUS_KERNEL(sssp_relax_pages<Edge>),
                     ISTHMUS_KERNEL(sssp_relax_packed<Edge>), seed, distance.device(), waiting.device());
          } else if (found.least != nothing_waits) {
            limit = (found.least / delta + 1) * delta;
            run.launch(ISTHMUS_KERNEL(no_frontier), {}, {}, g.counts.device());
          } else {
            break;
          }
        }
        if (run.repeat() + 1 == sources) g.copy(run, distance, distances);
      },
      paged(g.edges));
  g.report(c);
}

void run(Case& c) {
  with_graph<true>(c, [&](const auto& g) { search(c, g); });
}

const Registration registration =
    graph_program("apps/sssp", run)
        .version(1)
        .summary(
            "shortest paths from one vertex by delta-stepping: a vertex is visited again whenever its distance drops")
        .axis(how(number_axis("delta", "range of distances processed together", 32)))
        .axis(number_axis("sources", "consecutive searches, each from another vertex", 1));

}  // namespace
}  // namespace isthmus::apps
