// The programs at odd small shapes, in every placement, at both warp sizes and fiber orders.

#include <cstdlib>
#include <filesystem>

#include "../emulated_machine.hpp"
#include "../microbench/catalogue.hpp"
#include "../temporary_path.hpp"
#include "apps/graphs.hpp"
#include "paging/optimum.hpp"
#include "paging/placement.hpp"
#include "rings.hpp"
#include "workload/values.hpp"

namespace isthmus::microbench {
namespace {

const std::vector<std::string> placements = {"pageable",   "pinned",  "pool",           "mapped",
                                             "managed_in", "managed", "managed_demand", "managed_advise"};

const std::vector<std::string> all_stagings = {"none", "direct", "async", "bulk"};
const std::vector<std::string> tile_stagings = {"none", "direct", "async"};

class Programs : public device::OnEmulatedMachine {
 protected:
  static void expect_skip(const std::string& workload, const std::string& setting, const std::string& reason) {
    const auto results = run_cases(workload, {"none"}, {"pinned"}, {setting});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_NE(results[0].skipped.value_or("").find(reason), std::string::npos) << setting << complaint(results[0]);
  }
  static void expect_pass(const std::string& workload, const std::vector<std::string>& where,
                          const std::vector<std::string>& settings, std::size_t count,
                          const std::vector<std::string>& stagings = {"none"}) {
    const auto results = run_cases(workload, stagings, where, settings);
    EXPECT_EQ(results.size(), count);
    std::string all;
    for (const auto& setting : settings) all += " " + setting;
    for (const auto& result : results) EXPECT_EQ(complaint(result), "") << result.spec.label() << all;
  }
};

const std::vector<std::string> graph_programs = {"apps/bfs", "apps/cc", "apps/sssp"};

TEST_P(Programs, OnGraphs) {
  for (const auto& program : graph_programs) {
    expect_pass(program, placements, {"graph=kronecker", "scale=7"}, placements.size());
    expect_pass(program, {"pinned", "mapped"},
                {"graph=uniform,kronecker,friendster-like,moliere-like", "scale=0,1,6", "balance=vertex,edge"}, 48);
    // Some rows have so many edges that `balance=edge` cuts them into several pieces.
    expect_pass(program, {"pinned"}, {"graph=moliere-like", "scale=9", "balance=edge"}, 1);
  }
}

TEST_P(Programs, OnGraphsInPages) {
  for (const auto& program : graph_programs)
    expect_pass(program, {"paged"},
                {"graph=uniform,kronecker", "scale=9", "balance=vertex,edge", "page=4KiB", "frames=40,100"}, 8);
}

TEST_P(Programs, OnGraphsThatTheHostPacks) {
  for (const auto& program : graph_programs) {
    expect_pass(program, {"pinned", "pool"},
                {"graph=uniform,kronecker", "scale=0,1,7", "balance=vertex,edge", "edges=all,packed"}, 48);
    // Some rows have so many edges that `balance=edge` cuts them into several pieces.
    expect_pass(program, {"pinned"}, {"graph=moliere-like", "scale=9", "balance=edge", "edges=packed"}, 1);
    for (const auto& result : run_cases(program, {"none"}, {"pageable", "mapped", "managed", "paged"},
                                        {"scale=5", "page=4KiB", "frames=100", "edges=packed"}))
      EXPECT_NE(result.skipped.value_or("").find("choose pinned or pool"), std::string::npos) << complaint(result);
  }
  expect_pass("apps/bfs", {"pinned"}, {"scale=7", "sources=3", "edges=packed"}, 1);
  expect_pass("apps/cc", {"pinned"}, {"scale=7", "passes=2", "edges=packed"}, 1);
  expect_pass("apps/sssp", {"pinned"}, {"scale=7", "sources=2", "delta=1,1000000", "edges=packed"}, 2);
}

double only_value(const harness::CaseResult& result, const char* metric) {
  const auto* found = result.find(metric);
  return found != nullptr && found->samples.size() == 1 ? found->samples[0] : -1;
}

// The host packs only the edges that are needed: in a search, the row of each reached vertex once; in connected
// components, every vertex's row in each pass.
TEST_P(Programs, CountWhatTheHostPacks) {
  const auto shape = apps::shape_of(apps::GraphKind::kronecker, 8);
  const auto of = [](const char* program, std::vector<std::string> settings) {
    settings.insert(settings.end(), {"graph=kronecker", "scale=8", "edges=packed"});
    const auto results = run_cases(program, {"none"}, {"pinned"}, settings);
    EXPECT_EQ(results.size(), 1u);
    EXPECT_EQ(complaint(results.at(0)), "");
    return std::pair{only_value(results[0], "packed"), only_value(results[0], "body_in")};
  };
  const double all = 4.0 * static_cast<double>(shape.edges);
  EXPECT_EQ(of("apps/cc", {}).first, all);
  EXPECT_EQ(of("apps/cc", {"passes=3"}).first, 3 * all);
  // A search needs all edges except those of the few vertices that are not connected to the rest. The copied bytes also
  // include the rows' offsets.
  const auto [packed, came] = of("apps/bfs", {});
  EXPECT_GT(packed, 0.9 * all);
  EXPECT_LE(packed, all);
  EXPECT_GT(came, packed);
  EXPECT_LE(came, packed + 8.0 * (2.0 * static_cast<double>(shape.vertices)));
  EXPECT_GE(of("apps/sssp", {"delta=4"}).first, packed);
}

// The reported optimum is that of Belady's rule for the pages that the rows occupy, in the order of the rows: level by
// level in a search, and pass by pass in connected components.
TEST_P(Programs, OptimumOfGraphs) {
  constexpr std::uint64_t seed = 42;  // default seed of a case
  const auto graph = apps::make_graph(apps::GraphKind::uniform, 9, seed);
  const std::size_t pages = graph.shape.edges * sizeof(apps::Vertex) / 4096, frames = paging::frames_of(pages, 40);
  const auto run = [](const char* program, const char* room, const char* more) {
    const auto results = run_cases(program, {"none"}, {"paged"},
                                   {"graph=uniform", "scale=9", "page=4KiB", std::string("frames=") + room, more});
    EXPECT_EQ(results.size(), 1u);
    EXPECT_EQ(complaint(results.at(0)), "");
    return std::pair{only_value(results[0], "optimal_fetches"), results[0].find("fetches")->samples.back()};
  };
  EXPECT_EQ(run("apps/cc", "40", "passes=1").first, pages);
  EXPECT_EQ(run("apps/cc", "100", "passes=3").first, pages);
  EXPECT_EQ(run("apps/cc", "40", "passes=2").first, paging::optimal_fetches(paging::passes_over(pages, 2), frames));
  for (const char* program : {"apps/bfs", "apps/sssp"}) {
    const auto [optimum, fetches] = run(program, "40", "sources=1");
    EXPECT_GE(optimum, pages) << program;
    EXPECT_LE(optimum, fetches) << program;
  }
  // The search goes level by level from its source, which is the first vertex drawn because that vertex has edges.
  const std::size_t source = workload::hash(seed, 17, 0) % graph.shape.vertices;
  ASSERT_GE(graph.offsets[source + 1] - graph.offsets[source], 2u);
  std::vector<std::uint32_t> level(graph.shape.vertices), wanted;
  apps::distances_from(
      graph, static_cast<apps::Vertex>(source), [](apps::Vertex, std::uint64_t) { return 1; }, level.data());
  for (std::uint32_t depth = 0; depth < 10; ++depth) {
    for (std::size_t v = 0; v < level.size(); ++v) {
      for (auto e = graph.offsets[v]; level[v] == depth && e < graph.offsets[v + 1]; ++e) {
        const auto page = static_cast<std::uint32_t>(e * sizeof(apps::Vertex) / 4096);
        if (wanted.empty() || wanted.back() != page) wanted.push_back(page);
      }
    }
  }
  EXPECT_EQ(run("apps/bfs", "40", "sources=1").first, paging::optimal_fetches(wanted, frames));
}

TEST_P(Programs, OnGraphsSeveralTimes) {
  expect_pass("apps/bfs", {"pinned"}, {"scale=7", "sources=3"}, 1);
  expect_pass("apps/cc", {"pinned"}, {"scale=7", "passes=2"}, 1);
  expect_pass("apps/sssp", {"pinned"}, {"scale=7", "sources=2", "delta=1,1000000"}, 2);
  for (const auto& [program, times] : {std::pair{"apps/bfs", "sources=2"}, {"apps/cc", "passes=2"}})
    expect_pass(program, {"paged"}, {"scale=8", times, "page=4KiB", "frames=50,100"}, 2);
}

TEST_P(Programs, OnGraphsRefuseWhatTheyCannotNumber) {
  for (const auto& program : graph_programs) expect_skip(program, "scale=31", "at most 30");
}

TEST_P(Programs, OnAGraphFromAFile) {
  for (const bool weighted : {false, true}) {
    const std::string path = temporary_path(weighted ? "rings.wsg" : "rings.sg");
    apps::write_rings(path, weighted);
    setenv("ISTHMUS_GRAPH", path.c_str(), 1);
    for (const auto& program : graph_programs) {
      expect_pass(program, {"pinned"}, {"graph=file", "balance=vertex,edge"}, 2);
      expect_pass(program, {"paged"}, {"graph=file", "page=4KiB"}, 1);
      expect_pass(program, {"pinned"}, {"graph=file", "edges=packed"}, 1);
    }
    const auto read = run_cases("apps/cc", {"none"}, {"pinned"}, {"graph=file"});
    EXPECT_EQ(read.at(0).input_file.value().name, std::filesystem::path(path).filename());
    std::filesystem::remove(path);
    const auto gone = run_cases("apps/bfs", {"none"}, {"pinned"}, {"graph=file"});
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_NE(gone[0].error.value_or("").find("No such file"), std::string::npos) << complaint(gone[0]);
  }
  unsetenv("ISTHMUS_GRAPH");
  for (const auto& program : graph_programs) expect_skip(program, "graph=file", "set ISTHMUS_GRAPH");
}

// The check of a window must not consider more cells than the chip has; otherwise it takes more than ten minutes.
TEST_P(Programs, HotspotOfManyStepsOnASmallChip) {
  expect_pass("apps/hotspot", {"pinned"}, {"rows=2", "cols=3", "steps=2000"}, 1);
}

TEST_P(Programs, Hotspot) {
  expect_pass("apps/hotspot", placements, {"rows=131", "cols=301", "steps=7"}, placements.size());
  expect_pass("apps/hotspot", placements, {"rows=1", "cols=1", "steps=2"}, placements.size());
}

TEST_P(Programs, HotspotInEveryWayOfFusing) {
  for (const auto& shape : {std::vector<std::string>{"rows=3", "cols=500", "steps=17"},
                            std::vector<std::string>{"rows=301", "cols=2", "steps=9"},
                            std::vector<std::string>{"rows=64", "cols=128", "steps=1"}}) {
    auto settings = shape;
    settings.insert(settings.end(), {"fused=all", "submission=stream,graph"});
    expect_pass("apps/hotspot", {"pinned"}, settings, 12);
  }
}

TEST_P(Programs, Dwt2d) {
  expect_pass("apps/dwt2d", placements, {"rows=37", "cols=131", "filter=all", "form=all"}, 4 * placements.size());
  expect_pass("apps/dwt2d", {"pinned"},
              {"rows=1,2,3,99", "cols=1,2,5,482", "filter=all", "levels=1,2,4", "components=1"}, 96);
  expect_pass("apps/dwt2d", {"streamed"}, {"rows=50", "cols=33", "components=1,5", "filter=all", "form=all"}, 8);
}

TEST_P(Programs, Dwt2dRefusesWhatItCannotCount) {
  expect_skip("apps/dwt2d", "rows=4194305", "2^22");
  expect_skip("apps/dwt2d", "levels=17", "at most 16");
  expect_skip("apps/dwt2d", "components=65536", "65535");
}

TEST_P(Programs, GaussSeidel) {
  expect_pass("apps/gauss_seidel", placements, {"n=19", "sweeps=2", "order=all"}, 2 * placements.size());
  expect_pass("apps/gauss_seidel", {"pinned"}, {"n=2,3,16,28,31,34,66", "sweeps=2", "order=all"}, 14);
  expect_pass("apps/gauss_seidel", {"pinned"}, {"n=17", "sweeps=1,5", "order=natural"}, 2);
  expect_pass("apps/gauss_seidel", {"pinned"}, {"n=17", "sweeps=6", "order=all", "submission=all"}, 6);
}

TEST_P(Programs, GaussSeidelRefusesWhatItCannotDo) {
  expect_skip("apps/gauss_seidel", "n=1", "at least 2");
  expect_skip("apps/gauss_seidel", "n=65536", "at most 65535");
  expect_skip("apps/gauss_seidel", "sweeps=3", "even number");
}

TEST_P(Programs, Multigrid) {
  expect_pass("apps/multigrid", placements, {"n=8", "cycles=2"}, placements.size());
  expect_pass("apps/multigrid", {"pinned"}, {"n=8,16,32", "cycles=1,2"}, 6);
  expect_pass("apps/multigrid", {"pinned"}, {"n=16", "cycles=3", "submission=all"}, 3);
}

// The error falls with the square of a cell's side, which a reference for a single size cannot show.
TEST_P(Programs, MultigridIsOfSecondOrder) {
  expect_pass("apps/multigrid", {"pinned"}, {"n=8,32", "cycles=10"}, 2);
}

TEST_P(Programs, MultigridRefusesWhatHasNoLevels) {
  for (const char* n : {"n=4", "n=7", "n=24", "n=100"}) expect_skip("apps/multigrid", n, "levels end at 4");
  expect_skip("apps/multigrid", "n=65536", "at most 65535");
}

TEST_P(Programs, Lud) {
  expect_pass("apps/lud", placements, {"n=131"}, placements.size());
  for (const char* n : {"n=1", "n=2", "n=64", "n=65", "n=257"}) expect_pass("apps/lud", {"pinned", "mapped"}, {n}, 2);
}

TEST_P(Programs, LudInEveryWidthOfPanels) {
  expect_pass("apps/lud", {"pinned"}, {"n=300", "panel=all", "submission=stream,graph"}, 10);
}

TEST_P(Programs, Fft) {
  for (const char* n : {"n=1", "n=2", "n=3", "n=1024", "n=1001"}) {
    expect_pass("apps/fft", placements, {n}, placements.size());
    expect_pass("apps/fft", {"pinned", "mapped"}, {n, "batch=1,5", "direction=all"}, 8);
  }
}

TEST_P(Programs, Va) {
  expect_pass("apps/va", placements, {"n=262153"}, placements.size());
  expect_pass("apps/va", {"pinned", "streamed", "mapped"}, {"n=1,3,4095,4096,65537"}, 15);
}

TEST_P(Programs, Query) {
  for (const char* layout : {"layout=scattered", "layout=clustered"}) {
    expect_pass("apps/query", placements, {"trips=5003", "query=all", "selectivity=100", layout}, placements.size());
    expect_pass("apps/query", {"pinned", "streamed", "mapped"},
                {"trips=1,255,70001", "selectivity=0,8,10000", "predicate=all", "width=all", layout}, 108);
  }
  expect_pass("apps/query", {"pinned", "streamed"}, {"trips=66001", "query=all", "width=4", "selectivity=2500"}, 2);
  expect_pass("apps/query", {"pinned"}, {"trips=3001", "query=Q1,Q2,Q3,Q4,Q5", "selectivity=500"}, 5);
}

TEST_P(Programs, QueryRefusesWhatMakesNoSense) {
  expect_skip("apps/query", "selectivity=10001", "10,000");
  expect_skip("apps/query", "trips=1099511627776", "2^40");
}

TEST_P(Programs, ProductsOfAMatrixAndVectors) {
  for (const char* name : {"apps/mvt", "apps/atax", "apps/bicg"}) {
    expect_pass(name, {"pinned", "mapped"}, {"rows=300", "cols=1029", "passes=two"}, 2);
    expect_pass(name, placements, {"rows=259", "cols=1029"}, placements.size());
    expect_pass(name, {"pinned", "mapped"}, {"rows=1,2,255,513", "cols=1,3,127,2050"}, 32);
  }
}

TEST_P(Programs, ProductsThatWouldNotBeExactAreASkip) {
  for (const char* name : {"apps/mvt", "apps/atax", "apps/bicg"}) {
    for (const char* shape : {"rows=1048577", "cols=1048577"}) expect_skip(name, shape, "are not exact");
  }
}

TEST_P(Programs, Pathfinder) {
  expect_pass("apps/pathfinder", placements, {"rows=9", "cols=8200"}, 4 * placements.size(), all_stagings);
  for (const char* rows : {"rows=1", "rows=2", "rows=40"})
    expect_pass("apps/pathfinder", {"pinned"}, {rows, "cols=1,7,8191,16390", "fused=1,17,128"}, 48, all_stagings);
}

TEST_P(Programs, PathfinderRefusesWhatItCannotCount) {
  expect_skip("apps/pathfinder", "rows=107374183", "32 bits");
  expect_skip("apps/pathfinder", "fused=2049", "2048");
  expect_skip("apps/pathfinder", "cols=4398046511104", "2^42");
}

TEST_P(Programs, Srad) {
  expect_pass("apps/srad", placements, {"rows=70", "cols=130", "steps=3"}, 4 * placements.size(), all_stagings);
  expect_pass("apps/srad", {"pinned"}, {"rows=1,129", "cols=1,250", "steps=1,4", "roi=0,50"}, 64, all_stagings);
  expect_pass("apps/srad", {"pinned"}, {"rows=94,600", "cols=481", "steps=2"}, 8, all_stagings);
  expect_pass("apps/srad", {"pinned", "managed"}, {"rows=70", "cols=130", "steps=3", "loop=all"}, 16, all_stagings);
}

TEST_P(Programs, SradVersion1) {
  expect_pass("apps/srad_v1", placements, {"rows=70", "cols=130", "steps=3", "loop=all"}, 2 * placements.size());
  expect_pass("apps/srad_v1", {"pinned"}, {"rows=1,2,129", "cols=1,3,250", "steps=1,4", "submission=stream,graph"}, 36);
}

TEST_P(Programs, Heartwall) {
  expect_pass("apps/heartwall", placements, {"rows=240", "cols=231", "inner=2", "outer=3", "frames=12", "form=all"},
              3 * placements.size());
  expect_pass("apps/heartwall", {"pinned"}, {"rows=128", "cols=128,131", "inner=1", "outer=2", "frames=1,2,22"}, 6);
}

TEST_P(Programs, HeartwallRefusesWhatItCannotHold) {
  expect_skip("apps/heartwall", "rows=127", "128 rows");
  expect_skip("apps/heartwall", "cols=32769", "2^15");
  expect_skip("apps/heartwall", "inner=1048576", "2^20 points");
  expect_skip("apps/heartwall", "frames=1048577", "2^20 frames");
  for (const std::string size : {"rows=610", "cols=591", "inner=21"}) {
    const auto results = run_cases("apps/heartwall", {"none"}, {"pinned"}, {size, "form=static"});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_NE(results[0].skipped.value_or("").find("static arrays"), std::string::npos) << complaint(results[0]);
  }
  configure(std::string(GetParam()) + ",concurrent_managed=0");
  const auto forms = run_cases("apps/heartwall", {"none"}, {"managed_demand"},
                               {"rows=128", "cols=128", "inner=1", "outer=1", "frames=3", "form=double,single"});
  ASSERT_EQ(forms.size(), 2u);
  EXPECT_NE(forms[0].skipped.value_or("").find("form=single"), std::string::npos) << complaint(forms[0]);
  EXPECT_EQ(complaint(forms[1]), "");
}

TEST_P(Programs, SradAndKmeansWhereABlockHasManyTiles) {
  configure(std::string(GetParam()) + ",blocks=1");
  expect_pass("apps/srad", {"pinned"}, {"rows=280", "cols=970", "steps=2"}, 4, all_stagings);
  expect_pass("apps/kmeans", {"pinned"}, {"points=1003", "iterations=3"}, 4, all_stagings);
}

TEST_P(Programs, SradRefusesWhatItCannotCount) {
  expect_skip("apps/srad", "rows=2147483649", "2^37");
}

TEST_P(Programs, Backprop) {
  expect_pass("apps/backprop", placements, {"inputs=1030", "loop=all"}, 8 * placements.size(), all_stagings);
  expect_pass("apps/backprop", {"pinned"}, {"inputs=1,15,255,9001", "epochs=1,3", "loop=all"}, 64, all_stagings);
}

TEST_P(Programs, BackpropRefusesWhatItCannotSum) {
  expect_skip("apps/backprop", "inputs=68719476736", "2^36");
}

TEST_P(Programs, Kmeans) {
  expect_pass("apps/kmeans", placements, {"points=67", "iterations=3"}, 4 * placements.size(), all_stagings);
  expect_pass("apps/kmeans", {"pinned"}, {"points=5,64,129", "iterations=1,4", "loop=all"}, 48, all_stagings);
}

TEST_P(Programs, KmeansRefusesWhatMakesNoSense) {
  expect_skip("apps/kmeans", "points=4", "initial centres");
  expect_skip("apps/kmeans", "points=1099511627776", "2^40");
}

TEST_P(Programs, Lavamd) {
  expect_pass("apps/lavamd", placements, {"boxes=3", "particles=7"}, 3 * placements.size(), tile_stagings);
  expect_pass("apps/lavamd", {"pinned"}, {"boxes=1,2", "particles=1,20,110"}, 18, tile_stagings);
  expect_pass("apps/lavamd", {"streamed"}, {"boxes=1,2,5", "particles=6"}, 9, tile_stagings);
}

// With more than 512 boxes, only a sample of them is checked.
TEST_P(Programs, LavamdOfManyBoxes) {
  expect_pass("apps/lavamd", {"pinned", "streamed"}, {"boxes=9", "particles=2"}, 2);
}

TEST_P(Programs, LavamdRefusesWhatABlockOrAGridCannotHold) {
  expect_skip("apps/lavamd", "particles=111", "at most 110 particles");
  expect_skip("apps/lavamd", "boxes=1291", "1290");
}

TEST_P(Programs, Bayesian) {
  expect_pass("apps/bayesian", placements, {"nodes=6", "rounds=3", "loop=all"}, 6 * placements.size(), tile_stagings);
  expect_pass("apps/bayesian", {"pinned"}, {"nodes=2,3,4,5,9", "rows=1,33,608", "rounds=1,4", "loop=all"}, 180,
              tile_stagings);
}

TEST_P(Programs, BayesianOfSegmentsInParts) {
  expect_pass("apps/bayesian", {"pinned"}, {"nodes=11", "rounds=2", "part=4,30"}, 6, tile_stagings);
}

// With this many nodes, several blocks work on sets with the same third and fourth member, c and d.
TEST_P(Programs, BayesianOfMoreNodes) {
  expect_pass("apps/bayesian", {"pinned"}, {"nodes=26", "rounds=1"}, 1);
}

TEST_P(Programs, BayesianRefusesWhatItCannotHold) {
  expect_skip("apps/bayesian", "nodes=1", "at least 2 nodes");
  expect_skip("apps/bayesian", "nodes=256", "memory");
  expect_skip("apps/bayesian", "nodes=257", "at most 256");
  expect_skip("apps/bayesian", "rows=609", "608 rows");
  expect_skip("apps/bayesian", "rounds=2147483648", "2^31");
  expect_skip("apps/bayesian", "part=4294967297", "shared memory");
  expect_skip("apps/bayesian", "part=65536", "shared memory");
}

TEST_P(Programs, Nw) {
  expect_pass("apps/nw", placements, {"rows=70", "cols=259"}, 3 * placements.size(), tile_stagings);
  expect_pass("apps/nw", {"pinned"}, {"rows=1,31,129,200", "cols=1,127,129"}, 36, tile_stagings);
}

TEST_P(Programs, NwRefusesWhatItCannotCount) {
  expect_skip("apps/nw", "rows=33554433", "32 bits");
  expect_skip("apps/nw", "cols=33554433", "32 bits");
}

TEST_P(Programs, Nn) {
  expect_pass("apps/nn", placements, {"records=3001", "loop=all"}, 2 * placements.size());
  expect_pass("apps/nn", {"pinned", "streamed"}, {"records=10,11,2047,2048,2049,70001,300000"}, 14);
}

TEST_P(Programs, NnRefusesWhatMakesNoSense) {
  expect_skip("apps/nn", "records=9", "ten nearest");
  expect_skip("apps/nn", "records=4294967297", "2^32");
}

TEST_P(Programs, Knn) {
  expect_pass("apps/knn", placements, {"queries=5", "references=150", "dims=33"}, 4 * placements.size(), all_stagings);
  expect_pass("apps/knn", {"pinned", "streamed"}, {"queries=130", "references=40", "dims=3"}, 8, all_stagings);
  expect_pass("apps/knn", {"pinned"}, {"queries=1,3", "references=20,129,260", "dims=1,5", "parts=0,2"}, 96,
              all_stagings);
}

TEST_P(Programs, KnnRefusesWhatMakesNoSense) {
  expect_skip("apps/knn", "references=19", "20 neighbors");
  expect_skip("apps/knn", "references=1073741825", "32 bits");
  expect_skip("apps/knn", "dims=8193", "8192");
}

TEST_P(Programs, KnnNeedsRoomForItsTiles) {
  configure("shared=64KiB");
  const auto results = run_cases("apps/knn", {"none", "async"}, {"pinned"}, {}, {"tiny"});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_FALSE(results.front().error || results.front().skipped) << complaint(results.front());
  EXPECT_FALSE(results.back().error) << complaint(results.back());
  EXPECT_NE(results.back().skipped.value_or("").find("choose staging none"), std::string::npos);
}

TEST_P(Programs, ALibraryThatIsNotThereIsASkip) {
  for (const auto& [workload, call] : {std::pair{"apps/lud", "blas_create"}, std::pair{"apps/fft", "fft_create"}}) {
    device::set_injection(std::string(call) + ":1:unsupported");
    const auto results = run_cases(workload, {"none"}, {"pinned"}, {}, {"tiny"});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_FALSE(results.front().error) << complaint(results.front());
    EXPECT_NE(results.front().skipped.value_or("").find(call), std::string::npos) << complaint(results.front());
  }
}

// Above 2^17 edges, 2^26 cell-steps, 2^20 samples, 512 rows or 2^26 products, no serial reference runs; only the checks
// that also run at large sizes do.
TEST_P(Programs, SizesThatHaveNoSerialReference) {
  for (const auto& program : graph_programs) expect_pass(program, {"pinned"}, {"scale=13"}, 1);
  expect_pass("apps/hotspot", {"pinned"}, {"rows=1030", "cols=1033", "steps=64"}, 1);
  expect_pass("apps/dwt2d", {"pinned"}, {"rows=1031", "cols=1034", "filter=all", "components=1"}, 2);
  expect_pass("apps/lud", {"pinned"}, {"n=1000"}, 1);
  expect_pass("apps/fft", {"pinned"}, {"n=100003", "direction=all"}, 2);
  expect_pass("apps/fft", {"pinned"}, {"n=4096", "batch=33"}, 1);
}

INSTANTIATE_TEST_SUITE_P(Machines, Programs, testing::Values("warp=32", "warp=64,order=reverse"),
                         [](const auto& machine) { return machine.param[5] == '3' ? "Warp32" : "Warp64Reverse"; });

}  // namespace
}  // namespace isthmus::microbench
