// Kernels that are wrong, compiled from the real sources: the catalogue's checks must see it.

#include "catalogue.hpp"

namespace isthmus::microbench {
namespace {

void expect_caught(const std::string& workload, const std::vector<std::string>& settings) {
  const auto results = run_cases(workload, {"direct", "async", "bulk"}, {"pinned"}, settings);
  ASSERT_EQ(results.size(), 3u);
  for (const auto& result : results) {
    EXPECT_TRUE(result.failed()) << result.spec.label() << " passed without its barriers";
  }
}

TEST(Mutants, MissingBarriersAreCaught) {
  expect_caught("microbench/conv2d", {"rows=35", "cols=133", "threads=64", "tile=16x128"});
  expect_caught("microbench/gemm", {"m=37", "n=45", "k=70", "tile=32x32x32"});
  expect_caught("microbench/gemv", {"rows=19", "cols=601", "threads=64", "tile=256"});
}

}  // namespace
}  // namespace isthmus::microbench
