#pragma once

// Before each step the host puts the edges that it wants side by side into page-locked memory. They are copied, and the
// kernel goes through these alone. It is what Subway does (Sabet, Zhao, Gupta, EuroSys 2020), the rival in Table 3 of
// the GPUVM paper.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "apps/graphs.hpp"
#include "device/kernel/kernel.hpp"
#include "memory/parallel.hpp"
#include "memory/placement.hpp"
#include "workload/skip.hpp"

namespace isthmus::apps {

/// An edge with its weight, as GAP's .wsg files have them.
struct alignas(8) WeightedEdge {
  Vertex to;
  Weight weight;
};

/// The edge with this number, with its weight where that is asked for.
template <class Edge>
Edge edge_of(const Graph& graph, std::uint64_t e) {
  if constexpr (sizeof(Edge) > sizeof(Vertex)) {
    return {graph.edges[e], graph.weights[e]};
  } else {
    return graph.edges[e];
  }
}

/// Some of a vertex's edges: those between multiples of a number of edges, counted from the one its row begins in.
struct Piece {
  Vertex vertex;
  std::uint32_t number;
};

/// Consecutive edges.
struct EdgeRange {
  std::uint64_t first, last;
};

/// Those of a row's piece with this number; `shift` is log2 of the multiples.
__host__ __device__ inline EdgeRange edges_of(EdgeRange row, std::uint32_t number, unsigned shift) {
  const std::uint64_t cut = (row.first >> shift) + number;
  if (number > 0) row.first = cut << shift;
  if (const std::uint64_t next = (cut + 1) << shift; row.last > next) row.last = next;
  return row;
}

/// As Frontier, of edges that lie side by side in the order of their pieces.
struct PackedFrontier {
  const std::uint64_t* begins;  ///< one more than pieces
  const Piece* pieces;
  std::uint64_t count;
  unsigned portion;

  __device__ EdgeRange edges(std::uint64_t place, const Piece&) const {
    return {begins[place], begins[place + std::size_t{1}]};
  }
};

/// Packs the edges of these pieces, and says where those of each begin and the last end: one number more than pieces.
/// Returns how many edges there are. All of the host's processors copy, as many edges each.
template <class Edge>
std::uint64_t pack_edges(const Graph& graph, std::span<const Piece> pieces, unsigned shift, std::uint64_t* begins,
                         Edge* packed) {
  constexpr std::size_t grain = 1 << 14;
  const auto edges = [&](const Piece& piece) {
    return edges_of({graph.offsets[piece.vertex], graph.offsets[piece.vertex + std::size_t{1}]}, piece.number, shift);
  };
  begins[0] = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto [first, last] = edges(pieces[i]);
    begins[i + 1] = begins[i] + (last - first);
  }
  const std::uint64_t all = begins[pieces.size()];
  memory::parallel_for(all, grain, [&](std::uint64_t first, std::uint64_t last) {
    auto i = static_cast<std::size_t>(std::upper_bound(begins, begins + pieces.size(), first) - begins) - 1;
    for (std::uint64_t at = first; at < last; ++i) {
      const std::uint64_t from = edges(pieces[i]).first + (at - begins[i]);
      const std::uint64_t end = std::min(begins[i + 1], last);
      for (std::uint64_t e = from; at < end; ++at, ++e) packed[at] = edge_of<Edge>(graph, e);
    }
  });
  return all;
}

/// Throws Skip where nothing is copied from page-locked memory.
inline void refuse_packing(const memory::Placement& placement) {
  using namespace workload;
  if (placement->two_memories() && memory::page_locked(placement->host) && !placement->chunked && !placement->paged)
    return;
  throw Skip("edges=packed copies what the host packed in page-locked memory, which placement " +
                 std::string(memory::name(placement)) + " does not: take pinned or pool",
             SkipKind::not_applicable);
}

}  // namespace isthmus::apps
