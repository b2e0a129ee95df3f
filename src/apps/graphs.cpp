#include "apps/graphs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "apps/checks.hpp"
#include "workload/values.hpp"

namespace isthmus::apps {

namespace {

using memory::parallel_for;
using workload::hash;

constexpr int published_scale = 27;
constexpr std::size_t degree = 16;  // undirected edges per vertex in uniform and kronecker

/// Published sizes of the graph that a stand-in imitates, and the power that sets how steeply degrees fall. Ends are
/// drawn as n * u^(power / 32), with u uniform in [0, 1), so the share of the first vertex is n^(-32 / power). The
/// power was chosen so that the largest degree is as close as possible to the published one.
struct StandIn {
  std::size_t vertices, edges;
  unsigned power;
};
constexpr StandIn friendster{65608366, 3612134270, 43}, moliere{30239687, 6669254694, 68};

const StandIn& stand_in(GraphKind kind) {
  return kind == GraphKind::friendster ? friendster : moliere;
}

std::size_t scaled(std::size_t published, int scale) {
  return scale >= published_scale ? published << (scale - published_scale) : published >> (published_scale - scale);
}

/// Returns u^(power / 32), computed from square roots and products because every machine rounds these in the same way.
double raised(double u, unsigned power) {
  double result = 1;
  for (unsigned whole = power / 32; whole > 0; --whole) result *= u;
  double root = u;
  for (unsigned bit = 16; bit > 0; bit /= 2) {
    root = std::sqrt(root);
    if ((power & bit) != 0) result *= root;
  }
  return result;
}

/// Permutation of the vertices below n, so that vertices with neighbouring numbers are not neighbours in the
/// generator's tree. Multiplying by odd numbers and xoring with a shifted copy are invertible among numbers of `bits_`
/// bits; a result of n or more is renamed again.
class Renaming {
 public:
  Renaming(std::size_t n, std::uint64_t seed)
      : n_(n),
        bits_(static_cast<unsigned>(std::bit_width(n - 1))),
        mask_((std::uint64_t{1} << bits_) - 1),
        keys_{hash(seed, 16, 0), hash(seed, 16, 1), hash(seed, 16, 2), hash(seed, 16, 3)} {}

  Vertex operator()(std::uint64_t v) const {
    do {
      for (unsigned round = 0; round < 2; ++round) {
        v = (v * (keys_[2 * round] | 1) + keys_[2 * round + 1]) & mask_;
        v ^= v >> (bits_ / 2 + 1);
      }
    } while (v >= n_);
    return static_cast<Vertex>(v);
  }

 private:
  std::size_t n_;
  unsigned bits_;
  std::uint64_t mask_, keys_[4];
};

using Ends = std::pair<Vertex, Vertex>;
constexpr Vertex scaled_to(std::uint64_t bits, std::size_t n) {
  return static_cast<Vertex>((bits & 0xffffffff) * n >> 32);
}

/// Generator of edges between two uniformly random vertices.
struct UniformEnds {
  std::size_t n;
  std::uint64_t seed;
  Ends operator()(std::size_t i) const {
    const auto bits = hash(seed, 0, i);
    return {scaled_to(bits, n), scaled_to(bits >> 32, n)};
  }
};

/// Generator of edges that chooses one quarter of the adjacency matrix in each step. Two steps are drawn at once, from
/// a table of their sixteen outcomes.
class KroneckerEnds {
 public:
  KroneckerEnds(int scale, std::uint64_t seed) : scale_(scale), seed_(seed), renaming_(std::size_t{1} << scale, seed) {
    constexpr double quarter[] = {.57, .19, .19, .05};
    double sum = 0;
    for (unsigned outcome = 0; outcome < 16; ++outcome) {
      const auto begin = static_cast<std::size_t>(std::lround(sum * 0x1p16));
      sum += quarter[outcome / 4] * quarter[outcome % 4];
      std::fill(two_steps_.begin() + static_cast<std::ptrdiff_t>(begin), two_steps_.end(),
                static_cast<unsigned char>(outcome));
    }
  }
  Ends operator()(std::size_t i) const {
    std::uint64_t from = 0, to = 0, bits = 0;
    for (int step = 0; step < scale_; step += 2, bits >>= 16) {
      if (step % 8 == 0) bits = hash(seed_, 1 + static_cast<std::uint64_t>(step) / 8, i);
      const unsigned outcome = two_steps_[bits & 0xffff];  // bits: from and to of the first step, then of the second
      from = 4 * from + (outcome >> 2 & 2) + (outcome >> 1 & 1);
      to = 4 * to + (outcome >> 1 & 2) + (outcome & 1);
    }
    return {renaming_(from >> scale_ % 2), renaming_(to >> scale_ % 2)};
  }

 private:
  int scale_;
  std::uint64_t seed_;
  Renaming renaming_;
  std::vector<unsigned char> two_steps_ = std::vector<unsigned char>(1 << 16);
};

struct StandInEnds {
  std::size_t n;
  unsigned power;
  std::uint64_t seed;
  Renaming renaming;
  Vertex end(std::uint64_t bits) const {
    const double u = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
    return renaming(std::min(n - 1, static_cast<std::size_t>(static_cast<double>(n) * raised(u, power))));
  }
  Ends operator()(std::size_t i) const {
    const auto bits = hash(seed, 0, i);
    return {end(bits), end(bits >> 32)};
  }
};

/// Sorts the edges of a block of vertices into rows. The edges are in any order; `low` has each edge's source vertex,
/// counted from the beginning of the block.
void sort_block(Graph& graph, std::size_t begin, std::size_t end, std::uint64_t first, std::uint64_t last,
                const std::uint16_t* low) {
  std::vector<std::uint64_t> place(end - begin + 1);
  for (std::uint64_t e = first; e < last; ++e) ++place[low[e] + std::size_t{1}];
  place[0] = first;
  std::partial_sum(place.begin(), place.end(), place.begin());
  std::copy(place.begin(), place.end() - 1, graph.offsets.get() + begin);
  const std::vector<Vertex> targets(graph.edges.get() + first, graph.edges.get() + last);
  for (std::uint64_t e = first; e < last; ++e) graph.edges[place[low[e]]++] = targets[e - first];
  for (std::size_t v = begin; v < end; ++v)  // each place is now the beginning of the next row
    std::sort(graph.edges.get() + graph.offsets[v], graph.edges.get() + place[v - begin]);
}

/// Builds compressed rows from undirected edges; `ends(i)` returns edge i. The generator runs twice, in parts: the
/// first run counts how many edges each part generates for each block of vertices, and the second writes them there.
/// Then each block, which fits into a cache, is sorted by vertex. This needs two bytes per edge in addition to the
/// graph.
template <class EndsOf>
Graph rows_of(const GraphShape& shape, const EndsOf& ends) {
  const std::size_t n = shape.vertices, pairs = shape.edges / 2;
  const unsigned shift = std::clamp(static_cast<int>(std::bit_width(n)) - 9, 0, 16);
  const std::size_t blocks = ((n - 1) >> shift) + 1;
  const std::size_t parts = std::clamp<std::size_t>(pairs >> 12, 1, memory::host_threads());
  // Not value-initialised, so that the threads that fill the pages touch them first.
  Graph graph{shape, std::make_unique_for_overwrite<std::uint64_t[]>(n + 1),
              std::make_unique_for_overwrite<Vertex[]>(shape.edges), nullptr};
  const auto low = std::make_unique_for_overwrite<std::uint16_t[]>(shape.edges);

  std::vector<std::vector<std::uint64_t>> places(parts, std::vector<std::uint64_t>(blocks));
  const auto each_end = [&](std::size_t part, const auto& use) {
    for (std::size_t i = pairs * part / parts; i < pairs * (part + 1) / parts; ++i) {
      const auto [a, b] = ends(i);
      use(a, b);
      use(b, a);
    }
  };
  const auto in_parts = [&](const auto& work) {
    parallel_for(parts, 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t part = first; part < last; ++part) work(part);
    });
  };
  in_parts([&](std::size_t part) {
    std::vector<std::uint64_t> counts(blocks);
    each_end(part, [&](Vertex from, Vertex) { ++counts[from >> shift]; });
    places[part] = std::move(counts);
  });
  std::vector<std::uint64_t> begins{0};
  for (std::size_t block = 0; block < blocks; ++block) {
    std::uint64_t place = begins.back();
    for (auto& of_part : places) place += std::exchange(of_part[block], place);
    begins.push_back(place);
  }
  in_parts([&](std::size_t part) {
    auto place = std::move(places[part]);
    each_end(part, [&](Vertex from, Vertex to) {
      const auto at = place[from >> shift]++;
      graph.edges[at] = to;
      low[at] = static_cast<std::uint16_t>(from & ((1u << shift) - 1));
    });
  });
  std::atomic<std::size_t> next = 0;  // shared counter, because blocks differ in their number of edges
  in_parts([&](std::size_t) {
    for (std::size_t block = next++; block < blocks; block = next++)
      sort_block(graph, block << shift, std::min(n, (block + 1) << shift), begins[block], begins[block + 1], low.get());
  });
  graph.offsets[n] = shape.edges;
  return graph;
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the graph that is returned owns them

/// Returns the root of a vertex in a forest that other threads change; parents are never larger than their children.
Vertex root_of(Vertex* parent, Vertex v) {
  const auto at = [&](Vertex w) { return std::atomic_ref(parent[w]); };
  for (;;) {
    const Vertex above = at(v).load(std::memory_order_relaxed);
    if (above == v) return v;
    const Vertex next = at(above).load(std::memory_order_relaxed);
    if (next != above) at(v).store(next, std::memory_order_relaxed);
    v = above;
  }
}

}  // namespace

GraphShape shape_of(GraphKind kind, int scale) {
  if (kind == GraphKind::uniform || kind == GraphKind::kronecker)
    return {std::size_t{1} << scale, 2 * degree << scale, false};
  const auto& published = stand_in(kind);
  return {std::max<std::size_t>(scaled(published.vertices, scale), 1), scaled(published.edges / 2, scale) * 2, false};
}

Graph make_graph(GraphKind kind, int scale, std::uint64_t seed) {
  const GraphShape shape = shape_of(kind, scale);
  const std::size_t n = shape.vertices;
  if (kind == GraphKind::uniform) return rows_of(shape, UniformEnds{n, seed});
  if (kind == GraphKind::kronecker) return rows_of(shape, KroneckerEnds(scale, seed));
  return rows_of(shape, StandInEnds{n, stand_in(kind).power, seed, Renaming(n, seed)});
}

std::size_t count_components(const Graph& graph) {
  const std::size_t n = graph.shape.vertices;
  constexpr std::size_t grain = 1 << 14;
  const auto parent = std::make_unique_for_overwrite<Vertex[]>(n);
  parallel_for(n, grain, [&](std::size_t first, std::size_t last) {
    std::iota(parent.get() + first, parent.get() + last, static_cast<Vertex>(first));
  });
  std::atomic<std::size_t> joined = 0;
  parallel_for(n, grain, [&](std::size_t first, std::size_t last) {
    std::size_t own = 0;
    for (std::size_t v = first; v < last; ++v) {
      for (auto e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
        Vertex a = root_of(parent.get(), static_cast<Vertex>(v)), b = root_of(parent.get(), graph.edges[e]);
        while (a != b) {
          if (a < b) std::swap(a, b);
          Vertex is_root = a;
          if (std::atomic_ref(parent[a]).compare_exchange_strong(is_root, b, std::memory_order_relaxed)) {
            ++own;
            break;
          }
          a = root_of(parent.get(), a);
        }
      }
    }
    joined += own;
  });
  return n - joined;
}

void smallest_of_component(const Graph& graph, std::uint32_t* label) {
  // Edges connect in both directions, though a file may contain only one of them.
  const auto n = static_cast<Vertex>(graph.shape.vertices);
  std::iota(label, label + n, Vertex{0});
  for (Vertex v = 0; v < n; ++v) {
    for (auto e = graph.offsets[v]; e < graph.offsets[v + std::size_t{1}]; ++e) {
      const Vertex a = root_of(label, v), b = root_of(label, graph.edges[e]);
      label[std::max(a, b)] = std::min(a, b);
    }
  }
  for (Vertex v = 0; v < n; ++v) label[v] = label[label[v]];  // parents are smaller, so their labels are final
}

double count_component_errors(const Graph& graph, std::size_t components, const std::uint32_t* label) {
  const std::size_t n = graph.shape.vertices;
  const auto [errors, labels] = sums_of<double, 2>(n, 1 << 14, [&](std::size_t v, auto& sums) {
    if (label[v] >= n || label[label[v]] != label[v]) {
      ++sums[0];
      return;
    }
    if (label[v] == v) ++sums[1];
    for (auto e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) sums[0] += label[graph.edges[e]] != label[v] ? 1 : 0;
  });
  return errors + std::abs(labels - static_cast<double>(components));
}

}  // namespace isthmus::apps
