// Breadth-first search, top-down, level by level.

#include "apps/graph_program.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

using Level = std::uint32_t;

__global__ void bfs_start(Vertex source, Level* level, unsigned* visited) {
  level[source] = 0;
  visited[source / 32] = 1u << source % 32;
}

/// Selects the vertices that were visited since the last call.
struct NewlyVisited {
  const unsigned* visited;
  unsigned* seen;

  __device__ bool takes(std::uint64_t v, bool inside) const {
    const unsigned now = inside ? visited[v / 32] : 0, before = inside ? seen[v / 32] : 0;
    device::sync_warp(device::full_warp());
    if (inside && v % 32 == 0) seen[v / 32] = now;
    return ((now & ~before) >> v % 32 & 1) != 0;
  }
  __device__ void finish(Counts*) const {}
};

// for (v : frontier)
//   for (e = offsets[v]; e < offsets[v + 1]; ++e)
//     if (level[edges[e]] == unreached) level[edges[e]] = depth;
//
// A bitmap records visited vertices, because it fits into a cache and the levels do not. It is checked before the
// atomic that claims a vertex, so that few atomics are needed.
template <unsigned in_flight, class Pieces, class Edges>
__device__ __forceinline__ void expand(const Pieces& frontier, Counts* counts, Edges& edges, Level depth, Level* level,
                                       unsigned* visited) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *counts = no_counts();
  for_edges<Vertex, in_flight>(
      frontier, edges, [](bool, Vertex) { return 0; },
      [&](int, const unsigned(&)[in_flight], bool(&is)[in_flight], const Vertex(&target)[in_flight]) {
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j)
          is[j] = is[j] && (device::load_relaxed(visited + target[j] / 32) >> target[j] % 32 & 1) == 0;
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j) {
          const unsigned bit = 1u << target[j] % 32;
          if (is[j] && (atomicOr(visited + target[j] / 32, bit) & bit) == 0) level[target[j]] = depth;
        }
      });
}

__global__ void __launch_bounds__(threads, resident)
    bfs_expand(Frontier frontier, Counts* counts, const Vertex* edges, Level depth, Level* level, unsigned* visited) {
  Near<Vertex> near{edges};
  expand<4>(frontier, counts, near, depth, level, visited);
}

// Does the same as bfs_expand for edges that the host packed.
__global__ void __launch_bounds__(threads, resident)
    bfs_expand_packed(PackedFrontier frontier, Counts* counts, const Vertex* edges, Level depth, Level* level,
                      unsigned* visited) {
  Near<Vertex> near{edges};
  expand<4>(frontier, counts, near, depth, level, visited);
}

// Does the same as bfs_expand for edges in pages, which a warp fetches.
__global__ void __launch_bounds__(threads, resident_of_pages)
    bfs_expand_pages(Frontier frontier, Counts* counts, paging::Array<Vertex> edges, Level depth, Level* level,
                     unsigned* visited) {
  auto reader = edges.reader(paging::Lanes::full_warp());
  expand<8>(frontier, counts, reader, depth, level, visited);
}

void search(Case& c, const GraphCase<Vertex>& g) {
  const std::size_t n = g.shape.vertices, sources = c.extent("sources");
  auto level = c.scratch<Level>("levels", n);
  auto levels = c.output<Level>("level", n);
  auto visited = c.scratch<unsigned>("visited", (n + 31) / 32);
  auto seen = c.scratch<unsigned>("seen", (n + 31) / 32);

  verify_distances(c, g, levels, [](Vertex, std::uint64_t) { return 1; });

  c.repeats(sources);
  c.measure(
      Control::waits,
      [=, seed = c.seed()](Run& run) {
        if (run.repeat() == 0) g.prepare(run);
        run.fill(level, 0x7f);
        run.fill(visited, 0);
        run.fill(seen, 0);
        run.launch(ISTHMUS_KERNEL(bfs_start), {}, {}, source_of(*g.graph, seed, run.repeat()), level.device(),
                   visited.device());
        for (Level depth = 1;; ++depth) {
          const Counts found = g.gather(run, ISTHMUS_KERNEL(gather_frontier<NewlyVisited>),
                                        NewlyVisited{visited.device(), seen.device()});
          if (found.pieces == 0) break;
          g.expand(run, found, ISTHMUS_KERNEL(bfs_expand), ISTHMUS_KERNEL(bfs_expand_pages),
                   ISTHMUS_KERNEL(bfs_expand_packed), depth, level.device(), visited.device());
        }
        if (run.repeat() + 1 == sources) g.copy(run, level, levels);
      },
      paged(g.edges));
  g.report(c);
}

void run(Case& c) {
  with_graph<false>(c, [&](const auto& g) { search(c, g); });
}

const Registration registration =
    graph_program("apps/bfs", run)
        .version(2)
        .summary("breadth-first search, top-down")
        .axis(number_axis("sources", "consecutive searches, each from another vertex", 1));

}  // namespace
}  // namespace isthmus::apps
