// Tests of graphs generated from a seed, and of graph files: valid, truncated, and with wrong numbers.

#include "apps/graphs.hpp"
#include "../temporary_path.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <stdexcept>

#include "apps/graph_packing.hpp"
#include "workload/values.hpp"

namespace isthmus::apps {
namespace {

constexpr GraphKind kinds[] = {GraphKind::uniform, GraphKind::kronecker, GraphKind::friendster, GraphKind::moliere};

std::size_t degree_of(const Graph& g, std::size_t v) {
  return g.offsets[v + 1] - g.offsets[v];
}
std::size_t largest_degree(const Graph& g) {
  std::size_t most = 0;
  for (std::size_t v = 0; v < g.shape.vertices; ++v) most = std::max(most, degree_of(g, v));
  return most;
}

TEST(Graphs, AreUndirectedWithSortedRows) {
  for (const auto kind : kinds) {
    for (const int scale : {0, 1, 5, 11}) {
      const Graph g = make_graph(kind, scale, 3);
      EXPECT_EQ(g.offsets[0], 0u);
      ASSERT_EQ(g.offsets[g.shape.vertices], g.shape.edges);
      std::map<std::pair<Vertex, Vertex>, int> balance;  // number of edges from first to second, minus those back
      for (Vertex v = 0; v < g.shape.vertices; ++v) {
        EXPECT_TRUE(std::is_sorted(g.edges.get() + g.offsets[v], g.edges.get() + g.offsets[v + 1]));
        for (auto e = g.offsets[v]; e < g.offsets[v + 1]; ++e) {
          ASSERT_LT(g.edges[e], g.shape.vertices);
          ++balance[{v, g.edges[e]}];
          --balance[{g.edges[e], v}];
        }
      }
      for (const auto& [ends, count] : balance) EXPECT_EQ(count, 0) << ends.first << " " << ends.second;
    }
  }
}

TEST(Graphs, FollowFromTheSeedAlone) {
  for (const auto kind : kinds) {
    const Graph a = make_graph(kind, 9, 1), b = make_graph(kind, 9, 1), c = make_graph(kind, 9, 2);
    const auto same = [&](const Graph& other) {
      return std::equal(a.edges.get(), a.edges.get() + a.shape.edges, other.edges.get());
    };
    EXPECT_TRUE(same(b));
    EXPECT_FALSE(same(c));
  }
}

TEST(Graphs, HaveThePublishedSizesAtScale27) {
  EXPECT_EQ(shape_of(GraphKind::uniform, 27).vertices, std::size_t{1} << 27);
  EXPECT_EQ(shape_of(GraphKind::kronecker, 27).edges, std::size_t{1} << 32);
  EXPECT_EQ(shape_of(GraphKind::friendster, 27).edges, 3612134270u);
  EXPECT_EQ(shape_of(GraphKind::moliere, 27).vertices, 30239687u);
  EXPECT_EQ(shape_of(GraphKind::friendster, 26).vertices, 65608366u / 2);
}

// Degrees at scale 14: in a uniform graph they are close to a Poisson distribution around 32. In the other kinds a few
// vertices have a much higher degree than average, and in a kronecker graph some vertices have no edges.
TEST(Graphs, HaveDegreesOfTheirKind) {
  std::size_t alone = 0;
  const Graph uniform = make_graph(GraphKind::uniform, 14, 1), kronecker = make_graph(GraphKind::kronecker, 14, 1);
  double variance = 0;
  for (std::size_t v = 0; v < uniform.shape.vertices; ++v) {
    variance += std::pow(static_cast<double>(degree_of(uniform, v)) - 32, 2) / 16384;
    alone += degree_of(kronecker, v) == 0 ? 1 : 0;
  }
  EXPECT_NEAR(variance, 32, 4);
  EXPECT_LT(largest_degree(uniform), 80u);
  EXPECT_GT(largest_degree(kronecker), 4000u);
  EXPECT_GT(alone, 1000u);
  // The first vertex has the largest degree: a share of n^(-32/43) or n^(-32/68) of all ends of edges.
  for (const auto& [kind, power] : {std::pair{GraphKind::friendster, 43.0}, {GraphKind::moliere, 68.0}}) {
    const Graph g = make_graph(kind, 14, 1);
    const double wanted = static_cast<double>(g.shape.edges) * std::pow(g.shape.vertices, -32 / power);
    EXPECT_NEAR(static_cast<double>(largest_degree(g)), wanted, wanted / 4);
  }
}

TEST(Graphs, ComponentsAreCountedAsASerialSweepDoes) {
  for (const auto kind : kinds) {
    const Graph g = make_graph(kind, 12, 5);
    std::vector<Vertex> label(g.shape.vertices);
    smallest_of_component(g, label.data());
    std::size_t count = 0;
    for (Vertex v = 0; v < label.size(); ++v) count += label[v] == v ? 1 : 0;
    EXPECT_EQ(count_components(g), count);
    EXPECT_EQ(count_component_errors(g, count, label.data()), 0);
    label[g.edges[0]] ^= 1;
    EXPECT_GT(count_component_errors(g, count, label.data()), 0);
  }
}

// If all vertices have the same label, it is consistent along every edge, but the number of labels differs from the
// number of components.
TEST(Graphs, ComponentsInOneAreAnError) {
  const Graph g = make_graph(GraphKind::kronecker, 8, 5);
  const std::vector<Vertex> label(g.shape.vertices, 0);
  EXPECT_GT(count_component_errors(g, count_components(g), label.data()), 0);
}

TEST(Graphs, DistancesThatAreNoneAreErrors) {
  const Graph g = make_graph(GraphKind::kronecker, 10, 5);
  const auto weight = [](Vertex a, std::uint64_t) { return 1 + a % 3; };
  const Vertex source = g.edges[0];
  std::vector<std::uint32_t> distance(g.shape.vertices);
  distances_from(g, source, weight, distance.data());
  EXPECT_EQ(count_distance_errors(g, source, weight, distance.data()), 0);
  const auto far = static_cast<std::size_t>(
      std::max_element(distance.begin(), distance.end(),
                       [](auto a, auto b) { return (a == unreached ? 0 : a) < (b == unreached ? 0 : b); }) -
      distance.begin());
  for (const std::uint32_t wrong : {distance[far] - 1, distance[far] + 1, unreached, ~0u}) {
    auto other = distance;
    other[far] = wrong;
    EXPECT_GT(count_distance_errors(g, source, weight, other.data()), 0) << wrong;
  }
  auto other = distance;
  other[source] = 1;
  EXPECT_GT(count_distance_errors(g, source, weight, other.data()), 0);
}

// Compares packed edges with a plain loop over the edges: any pieces in any order, more edges than a processor packs
// at once, with and without weights.
TEST(Packing, PutsTheEdgesOfPiecesSideBySide) {
  Graph g = make_graph(GraphKind::moliere, 13, 7);
  g.weights = std::make_unique<Weight[]>(g.shape.edges);
  for (std::size_t e = 0; e < g.shape.edges; ++e) g.weights[e] = static_cast<Weight>(e % 251 + 1);
  for (const unsigned shift : {62u, 10u, 3u}) {
    std::vector<Piece> pieces;
    for (Vertex v = 0; v < g.shape.vertices; ++v) {
      if (degree_of(g, v) == 0 || workload::hash(3, v, shift) % 3 == 0) continue;
      const auto first = g.offsets[v] >> shift, last = (g.offsets[v + std::size_t{1}] - 1) >> shift;
      for (auto cut = first; cut <= last; ++cut) pieces.push_back({v, static_cast<std::uint32_t>(cut - first)});
    }
    for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[workload::hash(5, i, shift) % i]);
    std::vector<std::uint64_t> begins(pieces.size() + 1);
    std::vector<WeightedEdge> packed(g.shape.edges);
    std::vector<Vertex> plain(g.shape.edges);
    const auto all = pack_edges(g, pieces, shift, begins.data(), packed.data());
    EXPECT_EQ(pack_edges(g, pieces, shift, begins.data(), plain.data()), all);
    ASSERT_GT(all, 1u << 15);
    std::size_t at = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      ASSERT_EQ(begins[i], at);
      const std::size_t v = pieces[i].vertex;
      for (auto e = g.offsets[v]; e < g.offsets[v + 1]; ++e) {
        if ((e >> shift) - (g.offsets[v] >> shift) != pieces[i].number) continue;
        ASSERT_EQ(packed[at].to, g.edges[e]);
        ASSERT_EQ(packed[at].weight, g.weights[e]);
        ASSERT_EQ(plain[at++], g.edges[e]);
      }
    }
    EXPECT_EQ(begins.back(), at);
    EXPECT_EQ(all, at);
  }
  std::uint64_t begins[1] = {7};
  EXPECT_EQ(pack_edges<Vertex>(g, {}, 62, begins, nullptr), 0u);
  EXPECT_EQ(begins[0], 0u);
}

class GraphFiles : public testing::Test {
 protected:
  std::filesystem::path folder_ = temporary_path("graphs");
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  template <class T>
  static void append(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static std::string header(bool directed, std::int64_t edges, std::int64_t vertices) {
    std::string bytes(1, directed ? '\1' : '\0');
    append(bytes, edges);
    append(bytes, vertices);
    return bytes;
  }
  /// Returns a file of the graph 0 → 1, 0 → 2, 2 → 1.
  static std::string small(bool directed, bool weighted) {
    std::string bytes = header(directed, 3, 3);
    for (int times = 0; times < (directed ? 2 : 1); ++times) {
      for (const std::int64_t offset : {0, 2, 2, 3}) append(bytes, offset);
      for (const std::int32_t target : {1, 2, 1}) {
        append(bytes, target);
        if (weighted) append(bytes, std::int32_t{10 * target});
      }
    }
    return bytes;
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    const auto path = folder_ / name;
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path.string();
  }
  static workload::InputFile file(const std::string& path) { return {path, 1 << 20}; }
  static std::string refusal(const std::string& path) {
    try {
      load_graph(file(path));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(GraphFiles, AreReadAsTheyWereWritten) {
  for (const bool directed : {false, true}) {
    for (const bool weighted : {false, true}) {
      const auto path = write(weighted ? "a.wsg" : "a.sg", small(directed, weighted));
      EXPECT_EQ(shape_of_file(file(path)).weighted, weighted);
      const Graph g = load_graph(file(path));
      EXPECT_EQ(g.shape.vertices, 3u);
      EXPECT_EQ(std::vector<Vertex>(g.edges.get(), g.edges.get() + 3), (std::vector<Vertex>{1, 2, 1}));
      EXPECT_EQ(std::vector<std::uint64_t>(g.offsets.get(), g.offsets.get() + 4),
                (std::vector<std::uint64_t>{0, 2, 2, 3}));
      ASSERT_EQ(g.weights != nullptr, weighted);
      if (weighted) {
        EXPECT_EQ(g.weights[1], 20u);
      }
    }
  }
}

TEST_F(GraphFiles, ThatAreNoneAreRefusedInASentence) {
  const auto with = [](std::size_t at, auto value, bool weighted = false) {
    std::string bytes = small(false, weighted);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  constexpr std::size_t offsets = 17, edges = offsets + 4 * 8;
  const std::tuple<const char*, std::string, const char*> wrong[] = {
      {"empty.sg", "", "it has 0 bytes, but a header has 17"},
      {"a.graph", small(false, false), "its name ends in neither .sg nor .wsg"},
      {"first.sg", with(0, char{7}), "its first byte is 7"},
      {"none.sg", header(false, 0, 3), "0 edges"},
      {"negative.sg", header(false, -1, 3), "edges; use"},
      {"no_vertex.sg", header(false, 3, 0), "0 vertices"},
      {"many.sg", header(false, 3, std::int64_t{1} << 31), "vertices; use a graph of 1 to 2147483647"},
      {"short.sg", small(false, false).substr(0, 60), "its header implies 61 bytes, but it has 60"},
      {"long.sg", small(false, false) + "x", "it has 62"},
      {"half.sg", small(true, false).substr(0, 61), "its header implies 105 bytes"},
      {"beyond.sg", with(edges + 4, std::int32_t{3}), "edge 1 ends at vertex 3, but there are 3"},
      {"below.sg", with(edges, std::int32_t{-1}), "edge 0 ends at vertex 4294967295, but there are 3"},
      {"late.sg", with(offsets, std::int64_t{1}), "its first row begins at edge 1"},
      {"early.sg", with(offsets + 24, std::int64_t{2}), "its rows end at edge 2 of 3"},
      {"back.sg", with(offsets + 8, std::int64_t{3}), "the row of vertex 1 ends before it begins"},
      {"zero.wsg", with(edges + 4, std::int32_t{0}, true), "edge 0 has weight 0"},
      {"minus.wsg", with(edges + 4, std::int32_t{-5}, true), "edge 0 has weight -5"},
  };
  for (const auto& [name, bytes, why] : wrong) {
    const auto said = refusal(write(name, bytes));
    EXPECT_NE(said.find(why), std::string::npos) << name << ": " << said;
    EXPECT_NE(said.find(name), std::string::npos) << said;
  }
}

// A truncated or changed file is refused, or is a graph whose numbers are all in range.
TEST_F(GraphFiles, WithAnyByteChangedAreRefusedOrSound) {
  std::size_t refused = 0;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const bool weighted = i % 2 == 1;
    std::string bytes = small(i % 3 == 0, weighted);
    const auto drawn = workload::hash(9, 0, i);
    if (i % 5 == 0) {
      bytes.resize(drawn % bytes.size());
    } else {
      bytes[drawn % bytes.size()] ^= static_cast<char>(1 << (drawn >> 32) % 8);
    }
    const auto path = write(weighted ? "a.wsg" : "a.sg", bytes);
    if (!refusal(path).empty()) {
      ++refused;
      continue;
    }
    const Graph g = load_graph(file(path));
    ASSERT_EQ(g.offsets[g.shape.vertices], g.shape.edges);
    for (std::size_t v = 0; v < g.shape.vertices; ++v) ASSERT_LE(g.offsets[v], g.offsets[v + 1]);
    for (std::size_t e = 0; e < g.shape.edges; ++e) {
      ASSERT_LT(g.edges[e], g.shape.vertices);
      ASSERT_TRUE(!weighted || (g.weights[e] >= 1 && g.weights[e] <= unreached));
    }
  }
  EXPECT_GT(refused, 300u);
}

}  // namespace
}  // namespace isthmus::apps
