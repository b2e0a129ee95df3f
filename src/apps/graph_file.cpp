// Graphs from files of the GAP benchmark suite. A file contains one byte (directed or not), the numbers of directed
// edges and of vertices, 64-bit offsets and 32-bit targets; in a .wsg file each target is followed by its weight. The
// file of a directed graph repeats offsets and targets for the edges into each vertex, which the programs here do not
// need. The numbers are unaligned.

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "apps/graphs.hpp"

namespace isthmus::apps {

namespace {

using memory::parallel_for;

constexpr std::size_t header_bytes = 1 + 2 * sizeof(std::int64_t);
constexpr std::size_t piece_bytes = std::size_t{1} << 22;  // bytes that a thread reads at once

class GraphFile {
 public:
  explicit GraphFile(workload::InputFile file) : file_(std::move(file)) { read_header(); }

  const GraphShape& shape() const { return shape_; }

  Graph load() const {
    Graph graph{shape_, std::make_unique_for_overwrite<std::uint64_t[]>(shape_.vertices + 1),
                std::make_unique_for_overwrite<Vertex[]>(shape_.edges),
                shape_.weighted ? std::make_unique_for_overwrite<Weight[]>(shape_.edges) : nullptr};
    read_array(header_bytes, graph.offsets.get(), shape_.vertices + 1);
    check_offsets(graph);
    const std::uint64_t begin = header_bytes + (shape_.vertices + 1) * sizeof(std::uint64_t);
    parallel_for(shape_.edges, piece_bytes / 8, [&](std::size_t first, std::size_t last) {
      std::vector<std::uint32_t> words;
      for (std::size_t e = first; e < last; e += piece_bytes / 8) {
        const std::size_t count = std::min(piece_bytes / 8, last - e), numbers = edge_bytes() / sizeof(Vertex);
        words.resize(count * numbers);
        file_.read(begin + e * edge_bytes(), words.data(), words.size() * sizeof words[0]);
        for (std::size_t i = 0; i < count; ++i) {
          graph.edges[e + i] = words[i * numbers];
          if (words[i * numbers] >= shape_.vertices)
            fail(fmt::format("edge {} ends at vertex {}, but there are {} vertices", e + i, words[i * numbers],
                             shape_.vertices),
                 "write it again with GAP's converter");
          if (!shape_.weighted) continue;
          graph.weights[e + i] = words[2 * i + 1];
          if (graph.weights[e + i] - 1 >= unreached)
            fail(fmt::format("edge {} has weight {}", e + i, static_cast<std::int32_t>(words[2 * i + 1])),
                 fmt::format("use weights from 1 to {}, so that no shortest path overflows", unreached));
        }
      }
    });
    return graph;
  }  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the graph that is returned owns them

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& instead) const {
    throw std::runtime_error(fmt::format("the graph {} cannot be used: {}; {}", path(), what, instead));
  }
  std::size_t edge_bytes() const { return shape_.weighted ? 2 * sizeof(Vertex) : sizeof(Vertex); }

  template <class T>
  void read_array(std::uint64_t offset, T* into, std::size_t count) const {
    parallel_for(count, piece_bytes / sizeof(T), [&](std::size_t first, std::size_t last) {
      file_.read(offset + first * sizeof(T), into + first, (last - first) * sizeof(T));
    });
  }

  void read_header() {
    const std::uint64_t bytes = file_.bytes();
    const std::string layout = "use a .sg or .wsg file written by GAP's converter";
    if (!path().ends_with(".sg") && !path().ends_with(".wsg")) fail("its name ends in neither .sg nor .wsg", layout);
    shape_.weighted = path().ends_with(".wsg");
    if (bytes < header_bytes) fail(fmt::format("it has {} bytes, but a header has {}", bytes, header_bytes), layout);
    unsigned char directed = 0;
    std::uint64_t counts[2];
    file_.read(0, &directed, 1);
    file_.read(1, counts, sizeof counts);
    shape_.edges = counts[0];
    shape_.vertices = counts[1];
    if (directed > 1) fail(fmt::format("its first byte is {} instead of 0 or 1", directed), layout);
    if (shape_.vertices == 0 || shape_.vertices >= most_vertices)
      fail(fmt::format("its header says {} vertices", shape_.vertices),
           fmt::format("use a graph of 1 to {} vertices", most_vertices - 1));
    if (shape_.edges == 0 || shape_.edges >> 48 != 0)
      fail(fmt::format("its header says {} edges", shape_.edges), "use a graph of 1 to 2^48 - 1 edges");
    const std::uint64_t once = (shape_.vertices + 1) * sizeof(std::uint64_t) + shape_.edges * edge_bytes();
    const std::uint64_t wanted = header_bytes + (directed != 0 ? 2 : 1) * once;
    if (bytes != wanted)
      fail(fmt::format("its header implies {} bytes, but it has {}", wanted, bytes), "copy or write it again");
  }

  void check_offsets(const Graph& graph) const {
    const auto wrong = [&](const std::string& what) { fail(what, "write it again with GAP's converter"); };
    if (graph.offsets[0] != 0) wrong(fmt::format("its first row begins at edge {}", graph.offsets[0]));
    if (graph.offsets[shape_.vertices] != shape_.edges)
      wrong(fmt::format("its rows end at edge {} of {}", graph.offsets[shape_.vertices], shape_.edges));
    parallel_for(shape_.vertices, piece_bytes, [&](std::size_t first, std::size_t last) {
      for (std::size_t v = first; v < last; ++v)
        if (graph.offsets[v] > graph.offsets[v + 1])
          wrong(fmt::format("the row of vertex {} ends before it begins", v));
    });
  }

  const std::string& path() const { return file_.path(); }

  workload::InputFile file_;
  GraphShape shape_{};
};

}  // namespace

GraphShape shape_of_file(const workload::InputFile& file) {
  return GraphFile(file).shape();
}

Graph load_graph(const workload::InputFile& file) {
  return GraphFile(file).load();
}

}  // namespace isthmus::apps
