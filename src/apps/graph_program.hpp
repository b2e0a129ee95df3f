#pragma once

// Code that the graph programs share. The placement decides where edges are; all data about vertices is on the device.
// Each step gathers the vertices whose edges it needs, in ascending order, and a kernel processes these edges.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/graph_packing.hpp"
#include "apps/graphs.hpp"
#include "device/kernel/relaxed.hpp"
#include "paging/array.hpp"
#include "paging/optimum.hpp"
#include "workload/paged.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

constexpr unsigned threads = 128;
constexpr unsigned resident = 8, resident_of_pages = 5;  // blocks per multiprocessor that process edges
constexpr unsigned longest_piece = 10;                   // log2 of the edges per piece with balance=edge
constexpr unsigned line_bytes = 128;

struct Counts {
  unsigned long long pieces, edges, least;  ///< least: smallest distance of the vertices left for later steps
};
inline constexpr unsigned long long nothing_waits = ~0ULL;

__device__ inline Counts no_counts() {
  return {0, 0, nothing_waits};
}

/// Work of a kernel, cut into portions of consecutive pieces.
struct Frontier {
  const std::uint64_t* rows;
  const Piece* pieces;
  std::uint64_t count;
  unsigned portion, piece_shift;

  __device__ EdgeRange edges(std::uint64_t, const Piece& piece) const {
    return edges_of({rows[piece.vertex], rows[piece.vertex + std::size_t{1}]}, piece.number, piece_shift);
  }
};

/// Returns the sum of a value over the lanes up to and including this one.
__device__ inline unsigned sum_up_to(unsigned value) {
  const auto lane = static_cast<unsigned>(device::lane()), width = static_cast<unsigned>(device::warp_size());
  for (unsigned step = 1; step < width; step *= 2) {
    const unsigned before = device::shuffle_up(device::full_warp(), value, static_cast<int>(step));
    if (lane >= step) value += before;
  }
  return value;
}

/// Reader of edges in directly addressable memory, with the interface of a paging::Array's reader.
template <class Edge>
struct Near {
  const Edge* edges;
  __device__ void move_to(std::uint64_t) {}
  __device__ static std::uint64_t first() { return 0; }
  __device__ static std::uint64_t last() { return ~std::uint64_t{0}; }
  __device__ const Edge& operator[](std::uint64_t e) const { return edges[e]; }
};

// for (piece : pieces)
//   for (own = start(piece.vertex), e = first(piece); e < last(piece); ++e) visit(own, edges[e]);
//
// A warp processes as many pieces as it has lanes. Its lanes read the edges in lines of 128 bytes; rows that follow
// each other in memory are read as one. When the edges are in pages that the warp fetches, it processes the pieces page
// by page.
//
// All lanes call visit(own, owner, is, edge) with `in_flight` edges each: edge[j] is an edge if is[j] is true, and
// owner[j] is the lane that has its vertex. `own` is the value that `start` returned for the calling lane's vertex.
template <class Edge, unsigned in_flight, class Pieces, class Edges, class Start, class Visit>
__device__ __forceinline__ void for_edges(const Pieces& frontier, Edges& edges, Start start, Visit visit) {
  constexpr std::uint64_t line = line_bytes / sizeof(Edge);
  const auto full = device::full_warp();
  const auto lane = static_cast<unsigned>(device::lane()), width = static_cast<unsigned>(device::warp_size());
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (blockDim.x / width);
  const std::uint64_t warp =
      std::uint64_t{blockIdx.x} * (blockDim.x / width) + static_cast<unsigned>(device::warp_in_block());
  for (std::uint64_t at = warp * frontier.portion; at < frontier.count; at += warps * frontier.portion) {
    const std::uint64_t end = at + frontier.portion < frontier.count ? at + frontier.portion : frontier.count;
    for (std::uint64_t base = at; base < end; base += width) {
      const bool mine = base + lane < end;
      const Piece piece = mine ? frontier.pieces[base + lane] : Piece{0, 0};
      auto [first, last] = mine ? frontier.edges(base + lane, piece) : EdgeRange{0, 0};
      const auto own = start(mine, piece.vertex);
      for (auto waiting = device::ballot(full, first < last); waiting != 0;
           waiting = device::ballot(full, first < last)) {
        edges.move_to(device::shuffle(full, first, __ffsll(static_cast<long long>(waiting)) - 1));
        const bool here = first < last && first >= edges.first() && first < edges.last();
        const std::uint64_t there = last < edges.last() ? last : edges.last();
        constexpr std::uint64_t most = std::uint64_t{1} << 24;  // keeps a warp's sum within 32 bits
        const unsigned length = !here ? 0 : static_cast<unsigned>(there - first < most ? there - first : most);
        // The edges of all lanes' rows, padded to whole lines, are numbered consecutively. This computes the range of
        // numbers that the edges of this lane's row have.
        const std::uint64_t before = device::shuffle_up(full, here ? first + length : ~std::uint64_t{0}, 1);
        const bool follows = here && lane > 0 && before == first;
        const bool followed = device::shuffle_down(full, follows ? 1u : 0u, 1) != 0 && lane + 1 < width;
        const unsigned gap = follows ? 0 : static_cast<unsigned>(first % line);
        const unsigned rest = followed ? 0 : static_cast<unsigned>(-(first + length) % line);
        const unsigned ends = sum_up_to(here ? gap + length + rest : 0);
        const unsigned begins = here ? ends - rest - length : ends;
        const std::uint64_t offset = first - begins;
        const unsigned all = device::shuffle(full, ends, static_cast<int>(width) - 1);
        for (unsigned place = 0; place < all; place += in_flight * width) {
          Edge edge[in_flight];
          bool is[in_flight];
          unsigned owner[in_flight];
#pragma unroll
          for (unsigned j = 0; j < in_flight; ++j) {
            const unsigned k = place + j * width + lane;
            owner[j] = 0;  // becomes the lane of the first row that ends after k
            for (unsigned half = width / 2; half > 0; half /= 2)
              owner[j] += device::shuffle(full, ends, static_cast<int>(owner[j] + half - 1)) <= k ? half : 0;
            const auto of = static_cast<int>(owner[j]);
            is[j] = k - device::shuffle(full, begins, of) < device::shuffle(full, length, of);
            const std::uint64_t e = device::shuffle(full, offset, of) + k;
            if (is[j]) edge[j] = edges[e];
          }
          visit(own, owner, is, edge);
        }
        if (here) first += length;
      }
    }
  }
}

// for (v = 0; v < n; ++v)
//   if (choice.takes(v)) for (number = 0; number < pieces_of(v); ++number) pieces[count++] = {v, number};
//
// Pieces are written nearly in the order of their vertices, so that adjacent rows are read one after the other. All
// lanes call takes(v, inside) with consecutive vertices, the first of which is a multiple of the warp's width.
template <class Choice>
__global__ void __launch_bounds__(threads)
    gather_frontier(std::uint64_t n, const std::uint64_t* rows, unsigned piece_shift, Choice choice, Piece* pieces,
                    Counts* counts) {
  constexpr unsigned turns = 32;
  const auto full = device::full_warp();
  const auto lane = static_cast<unsigned>(device::lane()), width = static_cast<unsigned>(device::warp_size());
  const auto pieces_of = [&](std::uint64_t v) -> unsigned {
    const std::uint64_t first = rows[v], last = rows[v + 1];
    return first == last ? 0 : static_cast<unsigned>(((last - 1) >> piece_shift) - (first >> piece_shift)) + 1;
  };
  const std::uint64_t step = std::uint64_t{gridDim.x} * (threads / width) * turns * width;
  const std::uint64_t warp =
      std::uint64_t{blockIdx.x} * (threads / width) + static_cast<unsigned>(device::warp_in_block());
  for (std::uint64_t begin = warp * turns * width; begin < n; begin += step) {
    unsigned taken = 0, own = 0;
    unsigned long long edges = 0;
    for (unsigned turn = 0; turn < turns; ++turn) {
      const std::uint64_t v = begin + turn * width + lane;
      if (!choice.takes(v, v < n)) continue;
      taken |= 1u << turn;
      own += pieces_of(v);
      edges += rows[v + 1] - rows[v];
    }
    const unsigned all = device::shuffle(full, sum_up_to(own), static_cast<int>(width) - 1);
    for (unsigned half = width / 2; half > 0; half /= 2)
      edges += device::shuffle_xor(full, edges, static_cast<int>(half));
    if (all == 0) continue;
    unsigned long long room = 0;
    if (lane == 0) {
      room = atomicAdd(&counts->pieces, static_cast<unsigned long long>(all));
      atomicAdd(&counts->edges, edges);
    }
    room = device::shuffle(full, room, 0);
    for (unsigned turn = 0; turn < turns; ++turn) {
      const bool takes = (taken >> turn & 1) != 0;
      if (!device::any(full, takes)) continue;
      const std::uint64_t v = begin + turn * width + lane;
      const unsigned count = takes ? pieces_of(v) : 0;
      const unsigned up_to = sum_up_to(count);
      for (unsigned number = 0; number < count; ++number)
        pieces[room + up_to - count + number] = {static_cast<Vertex>(v), number};
      room += device::shuffle(full, up_to, static_cast<int>(width) - 1);
    }
  }
  choice.finish(counts);
}

// for (i = 0; i < n; ++i) to[i] = from[i];
template <class T>
__global__ void __launch_bounds__(threads) copy_elements(std::uint64_t n, const T* from, T* to) {
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x; i < n;
       i += std::uint64_t{gridDim.x} * threads)
    to[i] = from[i];
}

static __global__ void no_frontier(Counts* counts) {
  *counts = no_counts();
}

/// Returns a workload with the axes and sizes that all graph programs share.
inline workload::Workload graph_program(const std::string& name, std::function<void(workload::Case&)> function) {
  using namespace workload;
  Workload program(name, std::move(function));
  program.source("gpuvm-2024, graph workloads; graphs of GAP's kinds, by our own generators (docs/graphs.md)")
      .tags({"app", "gpuvm"})
      .placements(memory::all_placements())
      .paged()
      .stagings({Staging::none})
      .no_flops()
      .axis(choice_axis("graph",
                        "GAP's two kinds, stand-ins for two graphs of the paper, or the file named by ISTHMUS_GRAPH",
                        {"uniform", "kronecker", "friendster-like", "moliere-like", "file"}))
      .with_file("graph", "ISTHMUS_GRAPH", "a .sg or .wsg file of the GAP benchmark suite", std::size_t{1} << 40)
      .axis(number_axis("scale",
                        "log2 of the number of vertices; stand-ins have the published size at 27 and half of it at 26",
                        20, 0))
      .axis(how(choice_axis("balance", "work of a lane: all edges of a vertex, or at most 1,024 of them",
                            {"vertex", "edge"})))
      .axis(how(choice_axis("edges",
                            "edges that are transferred: all, by the placement; or only the needed ones, packed by the "
                            "host for each step",
                            {"all", "packed"})))
      .reported({"packed", "optimal_fetches"})
      .sizes({"scale"}, {10, 16, 20, 22, 24, 27});
  return program;
}

/// Graph of a case, its buffers, and the operations with which a program traverses it.
template <class Edge>
struct GraphCase {
  static constexpr bool weighted = sizeof(Edge) > sizeof(Vertex);
  /// Numbers observed by the host in one pass.
  struct Seen {
    std::uint64_t packed = 0;             ///< bytes of packed edges
    std::vector<std::uint32_t> wanted{};  ///< pages that kernels read, in the order of steps and pieces
  };

  GraphShape shape;
  bool pages, packs;
  workload::Shared<Graph> graph;
  workload::Buffer<std::uint64_t> offsets, rows;  ///< rows: the offsets on the device
  workload::Buffer<Edge> edges;                   ///< all edges, or the packed ones
  workload::Buffer<Piece> pieces;
  std::optional<workload::Buffer<std::uint64_t>> begins{};  ///< offsets of packed pieces
  workload::Buffer<Counts> counts;
  unsigned piece_shift;
  std::size_t page_bytes;
  device::DeviceInfo info;
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();

  GraphCase(workload::Case& c, const GraphShape& shape_, std::function<Graph()> make)
      : shape(shape_),
        pages(c.placement()->paged),
        packs(c.choice("edges") == "packed"),
        // Building a graph temporarily needs two more bytes per edge.
        graph(c.shared<Graph>("graph",
                              (shape.vertices + 1) * sizeof(std::uint64_t) + shape.edges * (shape.weighted ? 8 : 6),
                              std::move(make))),
        offsets(c.input<std::uint64_t>("offsets", shape.vertices + 1,
                                       [graph_ = graph](std::size_t v) { return graph_->offsets[v]; })),
        rows(c.scratch<std::uint64_t>("rows", shape.vertices + 1)),
        edges(packs ? c.partial<Edge>("packed edges", shape.edges)
                    : c.input<Edge>("edges", shape.edges,
                                    [graph_ = graph](std::size_t e) { return edge_of<Edge>(*graph_, e); })),
        pieces(packs ? c.partial<Piece>("pieces", most_pieces()) : c.scratch<Piece>("pieces", most_pieces())),
        counts(c.scratch<Counts>("counts", 1)),
        piece_shift(c.choice("balance") == "edge" ? longest_piece : 62),
        page_bytes(pages ? c.extent(workload::kPageAxis) : 0),
        info(c.device()) {
    if (!packs) return;
    refuse_packing(c.placement());
    begins = c.partial<std::uint64_t>("where pieces begin", most_pieces() + 1);
  }
  std::size_t most_pieces() const { return shape.vertices + (shape.edges >> longest_piece); }

  /// Copies the offsets to the device and resets the counts; it is called once per pass.
  void prepare(workload::Run& run) const {
    seen->packed = 0;
    if (run.times_work_items()) seen->wanted.clear();
    copy(run, offsets, rows);
    run.launch(ISTHMUS_KERNEL(no_frontier), {}, {}, counts.device());
  }
  template <class T>
  void copy(workload::Run& run, const workload::Buffer<T>& from, const workload::Buffer<T>& to) const {
    const auto bytes = static_cast<double>(from.size() * sizeof(T));
    run.launch(device::Kernel{"copy_elements", copy_elements<T>}, {.grid = blocks(from.size(), 1), .block = threads},
               {.bytes_read = bytes, .bytes_written = bytes}, from.size(), from.device(), to.device());
  }
  /// Returns the number of blocks for n elements with `each` elements per thread, at most as many as run at once.
  unsigned blocks(std::uint64_t n, unsigned each) const {
    const std::uint64_t all = (n + std::uint64_t{threads} * each - 1) / (std::uint64_t{threads} * each);
    return static_cast<unsigned>(std::min<std::uint64_t>(all, static_cast<unsigned>(info.multiprocessors) * 16));
  }
  /// Gathers the frontier, which consists of the vertices that `choice` selects, and waits for its counts.
  template <class Choice>
  Counts gather(workload::Run& run,
                device::Kernel<std::uint64_t, const std::uint64_t*, unsigned, Choice, Piece*, Counts*> kernel,
                const Choice& choice) const {
    run.launch(kernel, {.grid = blocks(shape.vertices, 32), .block = threads},
               {.bytes_read = static_cast<double>(shape.vertices) / 8}, shape.vertices, rows.device(), piece_shift,
               choice, pieces.device(), counts.device());
    return run.read(counts);
  }
  /// Launches the kernel that processes the frontier: `plain` for directly addressable edges, `paged` for edges in
  /// pages, `packed` for packed edges.
  template <class... P, class... A>
  void expand(workload::Run& run, const Counts& found, device::Kernel<Frontier, Counts*, const Edge*, P...> plain,
              device::Kernel<Frontier, Counts*, paging::Array<Edge>, P...> paged,
              device::Kernel<PackedFrontier, Counts*, const Edge*, P...> packed, A... arguments) const {
    const auto width = static_cast<unsigned>(info.warp_size);
    device::LaunchShape launch{
        .grid = static_cast<unsigned>(info.multiprocessors) * (pages ? resident_of_pages : resident), .block = threads};
    if (pages) {
      // A one-warp block needs only one frame.
      launch.block = std::min(threads, run.paged(edges).frame_count * width);
      launch = workload::within_frames(launch, info, {run.paged(edges)});
    }
    // If there are few pieces, each warp gets one portion. If there are many, each warp gets several portions, so that
    // each covers only a small part of a page.
    const std::uint64_t a_block = launch.block.size() / width, warps = launch.grid.size() * a_block;
    const std::uint64_t share = (found.pieces + warps - 1) / warps;
    const auto portion = static_cast<unsigned>(
        share < width ? share : std::clamp<std::uint64_t>(share / (std::uint64_t{4} * width), 1, 16) * width);
    const std::uint64_t wanted = (found.pieces + portion * a_block - 1) / (portion * a_block);
    launch.grid = static_cast<unsigned>(std::min(launch.grid.size(), wanted));
    const workload::Traffic traffic{.bytes_read = static_cast<double>(found.edges * sizeof(Edge) + found.pieces * 24)};
    if (packs) {
      pack(run, found.pieces);
      const PackedFrontier frontier{begins->device(), pieces.device(), found.pieces, portion};
      return run.launch(packed, launch, traffic, frontier, counts.device(), edges.device(), arguments...);
    }
    const Frontier frontier{rows.device(), pieces.device(), found.pieces, portion, piece_shift};
    if (!pages) return run.launch(plain, launch, traffic, frontier, counts.device(), edges.device(), arguments...);
    if (run.times_work_items()) see_pages(run, found.pieces);
    run.launch(paged, launch, traffic, frontier, counts.device(), paging::Array<Edge>(run.paged(edges)), arguments...);
  }
  /// Reports what the host counted; call it after measure().
  void report(workload::Case& c) const {
    if (packs) c.report(workload::count_metric("packed", "B"), static_cast<double>(seen->packed));
    if (!pages || seen->wanted.empty()) return;
    const std::size_t all = paging::pages_of(shape.edges * sizeof(Edge), page_bytes),
                      frames = paging::frames_of(all, c.extent(workload::kFramesAxis));
    c.report(workload::count_metric("optimal_fetches"),
             static_cast<double>(paging::optimal_fetches(seen->wanted, frames)));
  }

 private:
  /// Waits for the pieces, packs their edges and queues the copies. The wait also ends the previous step's copies, so
  /// their memory can be overwritten.
  void pack(workload::Run& run, std::uint64_t count) const {
    run.to_host(pieces, 0, count);
    run.read(counts);
    const std::uint64_t all = pack_edges(*graph, {pieces.host(), count}, piece_shift, begins->host(), edges.host());
    run.to_device(*begins, 0, count + 1);
    run.to_device(edges, 0, all);
    seen->packed += all * sizeof(Edge);
  }
  void see_pages(workload::Run& run, std::uint64_t count) const {
    for (const Piece& piece : run.read(pieces, 0, count)) {
      const std::size_t v = piece.vertex;
      const auto [first, last] = edges_of({graph->offsets[v], graph->offsets[v + 1]}, piece.number, piece_shift);
      for (auto page = first * sizeof(Edge) / page_bytes; page <= (last * sizeof(Edge) - 1) / page_bytes; ++page) {
        if (seen->wanted.empty() || seen->wanted.back() != page)
          seen->wanted.push_back(static_cast<std::uint32_t>(page));
      }
    }
  }
};

/// Calls use(GraphCase) with the graph of the case. If `weights` is true, the weights of a file are used.
template <bool weights, class Use>
void with_graph(workload::Case& c, const Use& use) {
  using namespace workload;
  const auto name = c.choice("graph");
  if (name == "file") {
    const auto& file = c.input_file();
    const GraphShape shape = shape_of_file(file);
    const auto make = [file] { return load_graph(file); };
    if constexpr (weights) {
      if (shape.weighted) return use(GraphCase<WeightedEdge>(c, shape, make));
    }
    return use(GraphCase<Vertex>(c, shape, make));
  }
  const auto scale = static_cast<int>(std::min<std::int64_t>(c.integer("scale"), 64));
  refuse_if(scale > 30, "vertices are numbered in 31 bits: choose a scale of at most 30");
  const GraphKind kind = name == "uniform"           ? GraphKind::uniform
                         : name == "kronecker"       ? GraphKind::kronecker
                         : name == "friendster-like" ? GraphKind::friendster
                                                     : GraphKind::moliere;
  const auto make = [kind, scale, seed = c.seed()] { return make_graph(kind, scale, seed); };
  use(GraphCase<Vertex>(c, shape_of(kind, scale), make));
}

/// Returns whether a graph is small enough for serial references.
inline bool is_small(const GraphShape& shape) {
  return shape.edges <= std::size_t{1} << 17;
}

/// Returns the source vertex of search `number`: one with at least two edges if the graph has any.
inline Vertex source_of(const Graph& graph, std::uint64_t seed, std::size_t number) {
  const std::size_t n = graph.shape.vertices, drawn = workload::hash(seed, 17, number) % n;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t v = (drawn + i) % n;
    if (graph.offsets[v + 1] - graph.offsets[v] >= 2) return static_cast<Vertex>(v);
  }
  return static_cast<Vertex>(drawn);
}

/// Verifies the distances of a program with the axis `sources`: they must be the distances from the last source, where
/// weight(from, e) is the weight of an edge.
template <class Edge, class WeightOf>
void verify_distances(workload::Case& c, const GraphCase<Edge>& g, const workload::Buffer<std::uint32_t>& distances,
                      const WeightOf& weight) {
  const auto source = [graph = g.graph, last = c.extent("sources") - 1, seed = c.seed()] {
    return source_of(*graph, seed, last);
  };
  if (is_small(g.shape))
    c.verify_all(distances, [=, graph = g.graph](std::span<std::uint32_t> expected) {
      distances_from(*graph, source(), weight, expected.data());
    });
  c.verify(
      "distances along every edge",
      [=, graph = g.graph] { return count_distance_errors(*graph, source(), weight, distances.host()); }, 0);
  c.verify_same(distances);
}

}  // namespace isthmus::apps
