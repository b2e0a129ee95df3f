// Breadth-first search, top-down, level by level, on a uniform random directed graph.

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <vector>

#include "device/relaxed.hpp"
#include "memory/parallel.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using memory::parallel_for;

using Vertex = std::uint32_t;
using Level = std::int32_t;
constexpr Level unreached = 0x7f7f7f7f;  // what a fill with 0x7f leaves; a poisoned byte is 0xff
constexpr std::size_t degree = 16;       // on average

/// Compressed rows: the edges of v are [offsets[v], offsets[v + 1]). Vertices 2i and 2i+1 have 32 edges together, of
/// which 2i has as many as 32 hashed bits are set: out-degrees are binomial, in-degrees too, and nothing is counted or
/// sorted, so that every edge is a function of its index.
struct Graph {
  std::size_t vertices;
  std::unique_ptr<std::uint64_t[]> offsets;
  std::unique_ptr<Vertex[]> edges;
  Vertex source = 0;
};

constexpr std::size_t grain = 65536;

Graph make_graph(std::size_t n, std::uint64_t seed) {
  // Not value-initialised: the threads that fill the pages touch them first.
  Graph g{n, std::make_unique_for_overwrite<std::uint64_t[]>(n + 1),
          std::make_unique_for_overwrite<Vertex[]>(n * degree)};
  parallel_for(n + 1, grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t v = first; v < last; ++v) {
      const bool second = v % 2 == 1 && v < n;  // of a pair: begins where the first ends
      const auto bits = static_cast<std::uint32_t>(hash(seed, 0, v / 2));
      const auto before = static_cast<unsigned>(std::popcount(bits));  // border: on the host
      g.offsets[v] = second ? (v - 1) * degree + before : v * degree;
    }
  });
  parallel_for(n * degree, grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t e = first; e < last; ++e) g.edges[e] = static_cast<Vertex>((hash(seed, 1, e) >> 32) * n >> 32);
  });
  g.source = static_cast<Vertex>(hash(seed, 2, 0) % n);
  while (g.offsets[g.source] == g.offsets[g.source + 1]) g.source = static_cast<Vertex>((g.source + 1) % n);
  return g;
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the graph that is returned owns them

constexpr unsigned threads = 256;
constexpr unsigned in_flight = 4;  // edges of a thread at once

__global__ void bfs_start(Vertex source, Level* level, unsigned* visited, Vertex* queue, unsigned* tail) {
  level[source] = 0;
  visited[source / 32] = 1u << source % 32;
  queue[0] = source;
  *tail = 1;
}

// for (i = first; i < last; ++i)
//   for (e = offsets[queue[i]]; e < offsets[queue[i] + 1]; ++e)
//     if (level[edges[e]] == unreached) level[edges[e]] = depth, queue[tail++] = edges[e];
//
// A block takes as many vertices as it has threads, and its threads share out their edges evenly. A bitmap says what
// was visited: it fits a cache where the levels do not. It is looked at before the atomic that claims a vertex, so that
// there are few of those.
__global__ void __launch_bounds__(threads, 8)
    bfs_expand(const std::uint64_t* __restrict__ offsets, const Vertex* __restrict__ edges, Level depth, Level* level,
               unsigned* visited, Vertex* queue, unsigned first, unsigned last, unsigned* tail, unsigned kept) {
  __shared__ std::uint64_t begin[threads];  // first edge of each vertex of the tile, less the edges of those before it
  __shared__ unsigned ends[2][threads];     // edges of the tile up to each vertex; twice, for the sum over the tile
  Vertex* found = device::dynamic_shared<Vertex>();  // discoveries, `kept` of them, which share one atomic
  __shared__ unsigned found_count, room;
  const unsigned t = threadIdx.x;
  for (std::uint64_t tile = first + std::uint64_t{blockIdx.x} * threads; tile < last;
       tile += std::uint64_t{gridDim.x} * threads) {
    const bool mine = tile + t < last;
    const Vertex vertex = mine ? queue[tile + t] : 0;
    const std::uint64_t own_begin = mine ? offsets[vertex] : 0;
    const auto own = mine ? static_cast<unsigned>(offsets[vertex + std::size_t{1}] - own_begin) : 0u;
    ends[0][t] = own;
    if (t == 0) found_count = 0;
    __syncthreads();
    unsigned turn = 0;
    for (unsigned step = 1; step < threads; step *= 2, turn ^= 1) {
      ends[turn ^ 1][t] = ends[turn][t] + (t >= step ? ends[turn][t - step] : 0);
      __syncthreads();
    }
    const unsigned* end = ends[turn];
    begin[t] = own_begin - (end[t] - own);
    __syncthreads();
    const unsigned all = end[threads - 1];
    for (unsigned base = t; base < all; base += in_flight * threads) {
      Vertex target[in_flight] = {};
      bool fresh[in_flight] = {};
#pragma unroll
      for (unsigned j = 0; j < in_flight; ++j) {
        const unsigned e = base + j * threads;
        unsigned owner = 0;  // the first vertex that ends after e
#pragma unroll
        for (unsigned half = threads / 2; half > 0; half /= 2) owner += end[owner + half - 1] <= e ? half : 0;
        fresh[j] = e < all;
        if (fresh[j]) target[j] = edges[begin[owner] + e];
      }
#pragma unroll
      for (unsigned j = 0; j < in_flight; ++j)
        fresh[j] = fresh[j] && (device::load_relaxed(visited + target[j] / 32) >> target[j] % 32 & 1) == 0;
#pragma unroll
      for (unsigned j = 0; j < in_flight; ++j) {
        const unsigned bit = 1u << target[j] % 32;
        if (!fresh[j] || (atomicOr(visited + target[j] / 32, bit) & bit) != 0) continue;
        level[target[j]] = depth;
        const unsigned place = atomicAdd(&found_count, 1u);
        *(place < kept ? found + place : queue + atomicAdd(tail, 1u)) = target[j];
      }
    }
    __syncthreads();
    const unsigned count = found_count < kept ? found_count : kept;
    if (t == 0 && count > 0) room = atomicAdd(tail, count);
    __syncthreads();
    for (unsigned i = t; i < count; i += threads) queue[room + i] = found[i];
    __syncthreads();
  }
}

void serial_bfs(const Graph& g, std::span<Level> level) {
  std::fill(level.begin(), level.end(), unreached);
  std::vector<Vertex> queue{g.source};
  level[g.source] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (auto e = g.offsets[queue[i]]; e < g.offsets[queue[i] + 1]; ++e) {
      if (level[g.edges[e]] != unreached) continue;
      level[g.edges[e]] = level[queue[i]] + 1;
      queue.push_back(g.edges[e]);
    }
  }
}

/// What breaks the definition of distances, in one sweep over the edges: a source that is not at 0, an edge over more
/// than one level, and a reached vertex that no edge reaches from the level before.
double count_errors(const Graph& g, const Level* level) {
  std::atomic<std::size_t> errors = level[g.source] == 0 ? 0 : 1;
  std::vector<unsigned char> reached(g.vertices);
  const auto mark = [](unsigned char& byte) { std::atomic_ref(byte).store(1, std::memory_order_relaxed); };
  mark(reached[g.source]);
  parallel_for(g.vertices, grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t v = first; v < last; ++v) {
      if (level[v] < 0 || level[v] > unreached) ++errors;
      if (level[v] == unreached) continue;
      for (auto e = g.offsets[v]; e < g.offsets[v + 1]; ++e) {
        const Vertex to = g.edges[e];
        if (level[to] > level[v] + 1) ++errors;
        if (level[to] == level[v] + 1) mark(reached[to]);
      }
    }
  });
  parallel_for(g.vertices, grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t v = first; v < last; ++v) errors += (level[v] != unreached) != (reached[v] != 0) ? 1 : 0;
  });
  return static_cast<double>(errors);
}

void run(Case& c) {
  const std::size_t n = c.extent("vertices");
  if (n >> 31 != 0) throw Skip("vertices and places in the queue are numbered in 32 bits", SkipKind::not_applicable);
  const auto graph = c.shared<Graph>("graph", (n + 1) * sizeof(std::uint64_t) + n * degree * sizeof(Vertex),
                                     [n, seed = c.seed()] { return make_graph(n, seed); });
  auto offsets = c.input<std::uint64_t>("offsets", n + 1, [=](std::size_t i) { return graph->offsets[i]; });
  auto edges = c.input<Vertex>("edges", n * degree, [=](std::size_t i) { return graph->edges[i]; });
  auto level = c.output<Level>("level", n);
  auto visited = c.scratch<unsigned>("visited", (n + 31) / 32);
  auto queue = c.scratch<Vertex>("queue", n);  // every vertex once, in the order of discovery
  auto tail = c.scratch<unsigned>("tail", 1);

  if (n <= std::size_t{1} << 20) c.verify_all(level, [=](std::span<Level> expected) { serial_bfs(*graph, expected); });
  c.verify("distances along every edge", [=] { return count_errors(*graph, level.host()); }, 0);
  c.verify_same(level);

  if (static_cast<std::size_t>(c.integer("kept")) > c.device().shared_per_block / sizeof(Vertex))
    throw Skip("so many discoveries do not fit into a block's shared memory", SkipKind::not_applicable);
  const auto kept = static_cast<unsigned>(c.integer("kept"));
  const auto resident = static_cast<unsigned>(c.device().multiprocessors) * 8;
  c.measure(Control::waits, [=](Run& run) {
    run.fill(level, 0x7f);
    run.fill(visited, 0);
    run.launch(ISTHMUS_KERNEL(bfs_start), {}, {}, graph->source, level.device(), visited.device(), queue.device(),
               tail.device());
    unsigned first = 0, last = 1;
    for (Level depth = 1; first < last; ++depth) {
      const unsigned tiles = (last - first + threads - 1) / threads;
      // Each vertex once: its place in the queue, two offsets, its edges; and, when it was found, its level and place.
      const Traffic one{.bytes_read = 4 + 16 + 4.0 * degree, .bytes_written = 4 + 4};
      run.launch(ISTHMUS_KERNEL(bfs_expand),
                 {.grid = std::min(tiles, resident), .block = threads, .shared_bytes = kept * sizeof(Vertex)},
                 one * static_cast<double>(last - first), offsets.device(), edges.device(), depth, level.device(),
                 visited.device(), queue.device(), first, last, tail.device(), kept);
      first = last;
      last = run.read(tail);
    }
  });
}

const Registration registration =
    Workload("apps/bfs", run)
        .version(1)
        .summary("breadth-first search, top-down, on a uniform random directed graph of 16 edges a vertex")
        .source("gpuvm-2024, graph workloads; the graph as GAP's uniform one, by our own generator")
        .tags({"app"})
        .placements(memory::all_placements())
        .stagings({Staging::none})
        .axis(number_axis("vertices", "vertices of the graph", 1 << 20))
        .axis(how(number_axis("kept", "discoveries that a block collects before it takes room in the queue", 4096, 0)))
        .sizes({"vertices"}, {1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 27});

}  // namespace
}  // namespace isthmus::apps
