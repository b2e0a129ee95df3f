// Connected components: each vertex gets the number of the smallest vertex in its component.

#include "apps/graph_program.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

__global__ void __launch_bounds__(threads) cc_start(std::uint64_t n, Vertex* parent) {
  for (std::uint64_t v = std::uint64_t{blockIdx.x} * threads + threadIdx.x; v < n;
       v += std::uint64_t{gridDim.x} * threads)
    parent[v] = static_cast<Vertex>(v);
}

/// Selects all vertices.
struct Everyone {
  __device__ bool takes(std::uint64_t, bool inside) const { return inside; }
  __device__ void finish(Counts*) const {}
};

/// Returns the root of a vertex's tree and halves the path to it. A vertex that has a parent never becomes a root
/// again.
__device__ inline Vertex root_of(Vertex* parent, Vertex v) {
  for (;;) {
    const Vertex above = device::load_relaxed(parent + v);
    if (above == v) return v;
    const Vertex next = device::load_relaxed(parent + above);
    if (next == above) return above;
    device::store_relaxed(parent + v, next);
    v = next;
  }
}

/// Joins the trees of two vertices: the larger root becomes a child of the smaller.
__device__ inline void join(Vertex* parent, Vertex a, Vertex b) {
  a = root_of(parent, a);
  b = root_of(parent, b);
  while (a != b) {
    const Vertex high = a > b ? a : b, low = a > b ? b : a;
    if (atomicCAS(parent + high, high, low) == high) return;
    a = root_of(parent, high);
    b = low;
  }
}

// for (v = 0; v < n; ++v)
//   for (e = offsets[v]; e < offsets[v + 1]; ++e) join(v, edges[e]);
template <unsigned in_flight, class Pieces, class Edges>
__device__ __forceinline__ void hook(const Pieces& frontier, Counts* counts, Edges& edges, Vertex* parent) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *counts = no_counts();
  for_edges<Vertex, in_flight>(
      frontier, edges, [](bool, Vertex v) { return v; },
      [&](Vertex own, const unsigned(&owner)[in_flight], const bool(&is)[in_flight], const Vertex(&target)[in_flight]) {
        Vertex from[in_flight], above[in_flight], theirs[in_flight];
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j) {
          from[j] = device::shuffle(device::full_warp(), own, static_cast<int>(owner[j]));
          above[j] = is[j] ? device::load_relaxed(parent + from[j]) : 0;
          theirs[j] = is[j] ? device::load_relaxed(parent + target[j]) : 0;
        }
    // Most pairs of vertices are already in the same tree.
#pragma unroll
        for (unsigned j = 0; j < in_flight; ++j)
          if (is[j] && above[j] != theirs[j]) join(parent, from[j], target[j]);
      });
}

__global__ void __launch_bounds__(threads, resident)
    cc_hook(Frontier frontier, Counts* counts, const Vertex* edges, Vertex* parent) {
  Near<Vertex> near{edges};
  hook<4>(frontier, counts, near, parent);
}

// Does the same as cc_hook for edges that the host packed.
__global__ void __launch_bounds__(threads, resident)
    cc_hook_packed(PackedFrontier frontier, Counts* counts, const Vertex* edges, Vertex* parent) {
  Near<Vertex> near{edges};
  hook<4>(frontier, counts, near, parent);
}

// Does the same as cc_hook for edges in pages, which a warp fetches.
__global__ void __launch_bounds__(threads, resident_of_pages)
    cc_hook_pages(Frontier frontier, Counts* counts, paging::Array<Vertex> edges, Vertex* parent) {
  auto reader = edges.reader(paging::Lanes::full_warp());
  hook<8>(frontier, counts, reader, parent);
}

__global__ void __launch_bounds__(threads) cc_label(std::uint64_t n, Vertex* parent, Vertex* label) {
  for (std::uint64_t v = std::uint64_t{blockIdx.x} * threads + threadIdx.x; v < n;
       v += std::uint64_t{gridDim.x} * threads)
    label[v] = root_of(parent, static_cast<Vertex>(v));
}

void components(Case& c, const GraphCase<Vertex>& g) {
  const std::size_t n = g.shape.vertices;
  auto parent = c.scratch<Vertex>("parents", n);
  auto label = c.output<Vertex>("label", n);

  if (is_small(g.shape))
    c.verify_all(label,
                 [graph = g.graph](std::span<Vertex> expected) { smallest_of_component(*graph, expected.data()); });
  const auto count =
      c.shared<std::size_t>("components", n * sizeof(Vertex), [graph = g.graph] { return count_components(*graph); });
  c.verify(
      "labels along every edge, and their number",
      [=, graph = g.graph] { return count_component_errors(*graph, *count, label.host()); }, 0);
  c.verify_same(label);

  c.repeats(c.extent("passes"));
  c.measure(
      Control::waits,
      [=](Run& run) {
        if (run.repeat() == 0) g.prepare(run);
        const double bytes = static_cast<double>(n * sizeof(Vertex));
        const device::LaunchShape shape{.grid = g.blocks(n, 1), .block = threads};
        run.launch(ISTHMUS_KERNEL(cc_start), shape, {.bytes_written = bytes}, n, parent.device());
        const Counts found = g.gather(run, ISTHMUS_KERNEL(gather_frontier<Everyone>), Everyone{});
        if (found.pieces > 0)
          g.expand(run, found, ISTHMUS_KERNEL(cc_hook), ISTHMUS_KERNEL(cc_hook_pages), ISTHMUS_KERNEL(cc_hook_packed),
                   parent.device());
        run.launch(ISTHMUS_KERNEL(cc_label), shape, {.bytes_read = bytes, .bytes_written = bytes}, n, parent.device(),
                   label.device());
      },
      paged(g.edges));
  g.report(c);
}

void run(Case& c) {
  with_graph<false>(c, [&](const auto& g) { components(c, g); });
}

const Registration registration =
    graph_program("apps/cc", run)
        .version(1)
        .summary("connected components, by joining trees along every edge once")
        .axis(how(number_axis("passes", "consecutive repetitions of the whole computation", 1)));

}  // namespace
}  // namespace isthmus::apps
