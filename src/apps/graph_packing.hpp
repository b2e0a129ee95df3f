#pragma once

// Packing of edges by the host. Before each step, the host copies the edges that the step needs into contiguous
// page-locked memory. Only these edges are copied to the device and processed there. Subway works in the same way
// (Sabet, Zhao, Gupta, EuroSys 2020); it is the competitor in Table 3 of the GPUVM paper.

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

/// Edge with its weight, in the layout of GAP's .wsg files.
struct alignas(8) WeightedEdge {
  Vertex to;
  Weight weight;
};

/// Returns edge `e`, with its weight if Edge has one.
template <class Edge>
Edge edge_of(const Graph& graph, std::uint64_t e) {
  if constexpr (sizeof(Edge) > sizeof(Vertex)) {
    return {graph.edges[e], graph.weights[e]};
  } else {
    return graph.edges[e];
  }
}

/// Part of a vertex's row of edges. Rows are cut wherever the number of an edge is a multiple of a power of two;
/// `number` counts the pieces of a row from its beginning.
struct Piece {
  Vertex vertex;
  std::uint32_t number;
};

/// Range of consecutive edges.
struct EdgeRange {
  std::uint64_t first, last;
};

/// Returns the edges of the row's piece `number`; `shift` is log2 of the number of edges between two cuts.
__host__ __device__ inline EdgeRange edges_of(EdgeRange row, std::uint32_t number, unsigned shift) {
  const std::uint64_t cut = (row.first >> shift) + number;
  if (number > 0) row.first = cut << shift;
  if (const std::uint64_t next = (cut + 1) << shift; row.last > next) row.last = next;
  return row;
}

/// Frontier whose edges are contiguous, in the order of their pieces.
struct PackedFrontier {
  const std::uint64_t* begins;  ///< offset of each piece's edges, then the number of all edges
  const Piece* pieces;
  std::uint64_t count;
  unsigned portion;

  __device__ EdgeRange edges(std::uint64_t place, const Piece&) const {
    return {begins[place], begins[place + std::size_t{1}]};
  }
};

/// Packs the edges of these pieces. Writes to `begins` the offset of each piece's edges, followed by the number of all
/// edges, and returns that number. All of the host's processors copy, each an equal number of edges.
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

/// Throws Skip unless the placement copies from page-locked memory.
inline void refuse_packing(const memory::Placement& placement) {
  using namespace workload;
  if (placement->two_memories() && memory::page_locked(placement->host) && !placement->chunked && !placement->paged)
    return;
  throw Skip("edges=packed needs page-locked memory, which placement " + std::string(memory::name(placement)) +
                 " does not have: choose pinned or pool",
             SkipKind::not_applicable);
}

}  // namespace isthmus::apps
