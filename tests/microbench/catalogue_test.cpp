// Tests of the seven workloads of microbench/* at small, odd shapes: every staging, tile and depth, with both warp
// sizes and fiber orders.

#include "catalogue.hpp"
#include "../emulated_machine.hpp"

namespace isthmus::microbench {
namespace {

const std::vector<std::string> all_stagings = {"none", "direct", "async", "bulk"};
const std::vector<std::string> rings = {"async", "bulk"};

class Catalogue : public device::OnEmulatedMachine {
 protected:
  static void expect_pass(const std::string& workload, const std::vector<std::string>& stagings,
                          const std::vector<std::string>& settings, const std::string& placement = "pinned") {
    const auto results = run_cases("microbench/" + workload, stagings, {placement}, settings);
    ASSERT_EQ(results.size(), stagings.size());
    for (const auto& result : results) {
      std::string all;
      for (const auto& setting : settings) all += " " + setting;
      EXPECT_EQ(complaint(result), "") << result.spec.label() << all;
    }
  }
  /// Expects every compiled depth to pass. The tile must be small enough that the ring of buffers wraps around.
  static void expect_depths(const std::string& workload, std::vector<std::string> settings) {
    settings.emplace_back();
    for (const char* depth : {"depth=2", "depth=4"}) {
      settings.back() = depth;
      expect_pass(workload, rings, settings);
    }
  }
};

TEST_P(Catalogue, VectorSeq) {
  expect_pass("vector_seq", all_stagings, {"n=3001", "threads=64", "tile=256", "blocks=2", "iterations=3"});
  expect_pass("vector_seq", {"direct", "async", "bulk"},
              {"n=1283", "threads=96", "tile=512", "reuse=shared", "iterations=2"});
  expect_pass("vector_seq", all_stagings, {"n=3", "threads=64"});
  expect_pass("vector_seq", {"direct", "bulk"}, {"n=5000", "threads=64", "shared_bytes=4096", "blocks=3"});
  expect_depths("vector_seq", {"n=3001", "threads=64", "tile=256", "blocks=1"});
  expect_pass("vector_seq", all_stagings, {"n=70001", "threads=128", "tile=4096"}, "streamed");
}

TEST_P(Catalogue, Saxpy) {
  expect_pass("saxpy", all_stagings, {"n=3001", "threads=64", "tile=256", "blocks=2", "iterations=3"});
  expect_pass("saxpy", {"direct", "async", "bulk"},
              {"n=1283", "threads=96", "tile=512", "reuse=shared", "iterations=2"});
  expect_pass("saxpy", all_stagings, {"n=1", "threads=64"});
  expect_depths("saxpy", {"n=3001", "threads=64", "tile=256", "blocks=1"});
  expect_pass("saxpy", all_stagings, {"n=35001", "threads=128", "tile=2048"}, "streamed");
}

TEST_P(Catalogue, VectorRand) {
  expect_pass("vector_rand", all_stagings, {"n=3001", "threads=64", "tile=1024", "blocks=2", "iterations=3"});
  expect_pass("vector_rand", all_stagings, {"n=3001", "threads=64", "tile=1024", "scope=vector", "iterations=2"});
  for (const char* scope : {"scope=tile", "scope=vector"}) {
    expect_pass("vector_rand", {"direct", "async", "bulk"},
                {"n=2051", "threads=96", "tile=1024", "reuse=shared", "iterations=2", scope});
    expect_pass("vector_rand", all_stagings, {"n=1", "threads=64", scope});
  }
  expect_depths("vector_rand", {"n=5001", "threads=64", "tile=1024", "blocks=1"});
  expect_pass("vector_rand", all_stagings, {"n=20001", "threads=128", "tile=2048"}, "streamed");
}

TEST_P(Catalogue, Gemv) {
  expect_pass("gemv", all_stagings, {"rows=19", "cols=601", "threads=64", "tile=256", "blocks=2"});
  expect_pass("gemv", all_stagings, {"rows=5", "cols=3", "threads=96", "tile=512"});
  expect_pass("gemv", all_stagings, {"rows=1", "cols=1", "threads=64"});
  for (const char* tile : {"tile=512", "tile=1024", "tile=2048"}) {
    expect_pass("gemv", {"direct", "async", "bulk"}, {"rows=7", "cols=2085", "threads=128", tile});
  }
  expect_depths("gemv", {"rows=9", "cols=1101", "threads=64", "tile=256", "blocks=1"});
  expect_pass("gemv", all_stagings, {"rows=133", "cols=70", "threads=64", "tile=256"}, "streamed");
}

TEST_P(Catalogue, Gemm) {
  for (const char* tile : {"tile=128x128x16", "tile=128x128x32", "tile=64x64x16", "tile=32x32x32"}) {
    expect_pass("gemm", all_stagings, {"m=37", "n=45", "k=70", tile});
    expect_depths("gemm", {"m=33", "n=35", "k=131", "blocks=1", tile});
  }
  expect_pass("gemm", all_stagings, {"m=1", "n=1", "k=1"});
  expect_pass("gemm", all_stagings, {"m=131", "n=33", "k=17"}, "streamed");
}

TEST_P(Catalogue, Conv2d) {
  for (const char* tile : {"tile=32x32", "tile=16x128", "tile=32x128"}) {
    expect_pass("conv2d", all_stagings, {"rows=35", "cols=133", "threads=64", tile});
    expect_depths("conv2d", {"rows=35", "cols=257", "threads=64", "blocks=1", tile});
  }
  expect_pass("conv2d", all_stagings, {"rows=1", "cols=1", "threads=64"});
  expect_pass("conv2d", all_stagings, {"rows=33", "cols=64", "threads=96", "blocks=3"});
  expect_pass("conv2d", all_stagings, {"rows=70", "cols=37", "threads=64"}, "streamed");
}

TEST_P(Catalogue, Conv3d) {
  for (const char* tile : {"tile=16x16", "tile=16x64", "tile=8x128", "tile=16x128"}) {
    expect_pass("conv3d", all_stagings, {"planes=3", "rows=18", "cols=35", tile});
    expect_depths("conv3d", {"planes=5", "rows=17", "cols=33", "blocks=1", tile});
  }
  expect_pass("conv3d", all_stagings, {"planes=1", "rows=1", "cols=1"});
  expect_pass("conv3d", {"none", "async"}, {"planes=35", "rows=3", "cols=9", "blocks=2"});
  expect_pass("conv3d", all_stagings, {"planes=5", "rows=7", "cols=32"}, "streamed");
}

INSTANTIATE_TEST_SUITE_P(Emulator, Catalogue, testing::Values("warp=32", "warp=64,order=reverse"),
                         [](const auto& information) { return information.index == 0 ? "Warp32" : "Warp64Reversed"; });

}  // namespace
}  // namespace isthmus::microbench
