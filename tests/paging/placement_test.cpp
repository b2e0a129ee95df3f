// Tests of the placement `paged`: programs whose kernels fetch pages have the same results as in every other placement,
// and wrong results are detected.

#include "paging/placement.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "../emulated_machine.hpp"
#include "../microbench/catalogue.hpp"
#include "paging/array.hpp"
#include "workload/paged.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using harness::CaseResult;

/// Protocol with a planted bug: a written page is never marked dirty, so its contents are lost.
struct NeverDirty : paging::Sound {
  static constexpr bool never_dirty = true;
};

// for (i = 0; i < n; ++i) a[i] += b[i];
template <class Protocol>
__global__ void add_to(paging::Array<unsigned, Protocol> a, paging::Array<unsigned, Protocol> b) {
  const auto lanes = paging::Lanes::full_warp();
  auto reader = b.reader(lanes);
  auto writer = a.writer(lanes);
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  const auto lane = static_cast<unsigned>(device::lane());
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i - lane < a.size(); i += threads) {
    const unsigned value = reader.read(i);
    writer.visit(i, [&](unsigned* element) { *element += value; });
  }
}

template <class Protocol>
void add_to_itself(Case& c) {
  constexpr unsigned kThreads = 128;
  const std::size_t n = c.extent("n");
  auto a = c.inout<unsigned>("a", n, [](std::size_t i) { return static_cast<unsigned>(i); });
  auto b = c.input<unsigned>("b", n, [](std::size_t i) { return static_cast<unsigned>(3 * i + 1); });
  c.verify(a, [](std::size_t i) { return static_cast<unsigned>(4 * i + 1); }, {});
  const auto info = c.device();
  c.measure(
      Control::queued,
      [=](Run& run) {
        const auto &as = run.paged(a), &bs = run.paged(b);
        run.launch(ISTHMUS_KERNEL(add_to<Protocol>), within_frames({.grid = 4, .block = kThreads}, info, {as, bs}), {},
                   paging::Array<unsigned, Protocol>(as), paging::Array<unsigned, Protocol>(bs));
      },
      paged(a, b));
}

void asks_for_no_pages(Case& c) {
  auto a = c.output<unsigned>("a", c.extent("n"));
  c.verify(a, [](std::size_t) { return 0u; }, {});
  c.measure(Control::queued, [=](Run& run) { run.fill(a, 0); });
}

Workload described(const char* name, void (*run)(Case&)) {
  return Workload(name, run)
      .summary("of a test")
      .paged()
      .stagings({Staging::none})
      .axis(number_axis("n", "words", 9000));
}
const Registration registrations[] = {described("paged/sound", add_to_itself<paging::Sound>),
                                      described("paged/never_dirty", add_to_itself<NeverDirty>),
                                      described("paged/none", asks_for_no_pages)};

double value_of(const CaseResult& result, std::string_view metric) {
  const auto* found = result.find(metric);
  EXPECT_NE(found, nullptr) << metric << " of " << result.spec.label();
  return found == nullptr || found->samples.empty() ? -1 : found->samples.back();
}

class PagedPlacement : public device::OnEmulatedMachine {
 protected:
  static std::vector<CaseResult> run_paged(const std::string& workload, std::vector<std::string> settings,
                                           const std::vector<std::string>& placements = {"paged"}) {
    return run_cases(workload, {"none"}, placements, std::move(settings));
  }
  static CaseResult only(const std::string& workload, std::vector<std::string> settings,
                         const std::vector<std::string>& placements = {"paged"}) {
    auto results = run_paged(workload, std::move(settings), placements);
    EXPECT_EQ(results.size(), 1u);
    return std::move(results.at(0));
  }
};

TEST_P(PagedPlacement, LeavesWhatOtherPlacementsLeave) {
  for (const auto& [name, settings] : std::initializer_list<std::pair<const char*, std::vector<std::string>>>{
           {"apps/va", {"n=70001"}},
           {"apps/mvt", {"rows=67", "cols=1029"}},
           {"apps/bicg", {"rows=259", "cols=260"}},
           {"apps/mvt", {"rows=67", "cols=1029", "passes=two"}},
           {"apps/bicg", {"rows=259", "cols=260", "passes=two"}},
           {"apps/atax", {"rows=67", "cols=2050"}},
           {"apps/kmeans", {"points=1609", "iterations=3"}},
           {"apps/kmeans", {"points=1201", "iterations=2", "loop=host"}},
           {"apps/query", {"trips=40001", "selectivity=8"}},
           {"apps/query", {"trips=80001", "query=Q3", "width=4", "selectivity=300", "layout=clustered"}},
           {"apps/query", {"trips=40001", "query=all", "predicate=resident", "selectivity=5000"}}}) {
    auto all = settings;
    all.insert(all.end(), {"page=4KiB", "frames=12,100", "eviction=all"});
    const auto results = run_paged(name, all, {"pinned", "paged"});
    EXPECT_EQ(results.size(), 7u) << name;  // six cases of `paged`; one of `pinned`, which has no frames
    for (const auto& result : results) EXPECT_EQ(complaint(result), "") << result.spec.label();
  }
}

TEST_P(PagedPlacement, CountsWhatMoves) {
  const auto few = only("apps/va", {"n=262144", "page=4KiB", "frames=25"});
  ASSERT_EQ(complaint(few), "");
  constexpr double kVector = 4 * 262144, kPages = kVector / 4096;
  // The result vector is not fetched, because each of its pages is written once, by a single warp.
  EXPECT_EQ(value_of(few, "fetches"), 3 * kPages);
  EXPECT_EQ(value_of(few, "fetched"), 2 * kVector);
  EXPECT_EQ(few.find("fetched")->bytes_needed, 2 * kVector);
  EXPECT_EQ(value_of(few, "evictions"), 3 * kPages * 3 / 4);
  EXPECT_EQ(value_of(few, "written_back"), kVector);
  EXPECT_EQ(few.find("written_back")->bytes_needed, kVector);
  EXPECT_GT(value_of(few, "table_bytes"), 3 * kPages * 8);
  EXPECT_GE(value_of(few, "paging_setup"), 0);
  EXPECT_EQ(few.find("in"), nullptr);  // `in` is not timed, because nothing is copied in
  EXPECT_LT(few.peak_device_bytes, 0.3 * 3 * kVector);
}

TEST_P(PagedPlacement, AMatrixReadTwiceComesTwiceWhereHalfOfItHasRoom) {
  const auto half = only("apps/atax", {"rows=512", "cols=256", "page=4KiB", "frames=50"});
  const auto all = only("apps/atax", {"rows=512", "cols=256", "page=4KiB", "frames=100"});
  ASSERT_EQ(complaint(half) + complaint(all), "");
  EXPECT_EQ(value_of(all, "fetches"), 128);
  EXPECT_EQ(value_of(all, "evictions"), 0);
  EXPECT_GT(value_of(half, "fetches"), 170);
  EXPECT_EQ(value_of(half, "written_back"), 0);
}

TEST_P(PagedPlacement, TwoPassesStandBesideTheirOptimum) {
  for (const char* name : {"apps/mvt", "apps/bicg", "apps/atax"}) {
    const auto half = only(name, {"rows=512", "cols=256", "page=4KiB", "frames=50", "passes=two"});
    const auto all = only(name, {"rows=512", "cols=256", "page=4KiB", "frames=100", "passes=two"});
    ASSERT_EQ(complaint(half) + complaint(all), "");
    EXPECT_EQ(value_of(half, "optimal_fetches"), 192);  // 128 pages once, and again the 64 for which frames are missing
    EXPECT_GE(value_of(half, "fetches"), 192);
    EXPECT_EQ(value_of(all, "optimal_fetches"), 128);
    EXPECT_EQ(value_of(all, "fetches"), 128);
    EXPECT_EQ(only(name, {"rows=67", "cols=256", "passes=two"}, {"pinned"}).find("optimal_fetches"), nullptr);
  }
}

// The warps of a block must stay together. If one runs ahead, the others fetch its pages again, and the number of
// fetches is five times the optimum.
TEST_P(PagedPlacement, AnEvictionThatResistsScansComesNearTheOptimum) {
  const auto result =
      only("apps/mvt", {"rows=2048", "cols=1024", "page=4KiB", "frames=50", "passes=two", "eviction=scan_resistant"});
  ASSERT_EQ(complaint(result), "");
  EXPECT_LE(value_of(result, "fetches"), 1.1 * value_of(result, "optimal_fetches"));
}

TEST_P(PagedPlacement, AQueryFetchesNoPageThatHasNothingForIt) {
  constexpr double kPage = 4096, kTrips = 1 << 16, kPages = kTrips * 8 / kPage;
  const std::vector<std::string> table{"trips=65536", "page=4KiB", "frames=50", "layout=clustered", "selectivity=100"};
  const auto with = [&](std::initializer_list<std::string> more) {
    auto all = table;
    all.insert(all.end(), more);
    const auto result = only("apps/query", all);
    EXPECT_EQ(complaint(result), "");
    return value_of(result, "fetches");
  };
  // The query selects 655 adjacent trips, which are on two or three of 128 pages.
  EXPECT_LE(with({"predicate=resident"}), 3);
  EXPECT_GE(with({"predicate=resident"}), 2);
  EXPECT_LE(with({"predicate=resident", "query=all"}), 15);
  EXPECT_LE(with({}), kPages + 3);
  EXPECT_GE(with({}), kPages + 2);
}

TEST_P(PagedPlacement, PointsThatArePagedAreNotStaged) {
  for (const auto& result : run_cases("apps/kmeans", {"direct", "async"}, {"paged"}, {"points=1609"}))
    EXPECT_NE(result.skipped.value_or("").find("choose staging none"), std::string::npos) << complaint(result);
}

TEST_P(PagedPlacement, WritesWhereItReads) {
  for (const char* eviction : {"eviction=fifo", "eviction=second_chance", "eviction=scan_resistant"})
    EXPECT_EQ(complaint(only("paged/sound", {"n=9001", "page=4KiB", "frames=50", eviction})), "") << eviction;
}

TEST_P(PagedPlacement, ALostDirtyBitTurnsTheCaseRed) {
  for (const char* frames : {"frames=50", "frames=100"}) {
    const auto result = only("paged/never_dirty", {"page=4KiB", frames});
    EXPECT_EQ(result.verification.verdict, harness::Verdict::fail) << complaint(result);
  }
}

TEST_P(PagedPlacement, TooFewFramesAreRefusedWithTheArithmetic) {
  const auto result = only("apps/va", {"n=262144", "page=256KiB", "frames=25"});
  const std::string warps = std::string(GetParam()).starts_with("warp=64") ? "4 warps" : "8 warps";
  const auto why = result.skipped.value_or(complaint(result));
  for (const auto& words : {warps, std::string("1 frames of 262144 bytes"), std::string("set more frames")})
    EXPECT_NE(why.find(words), std::string::npos) << why;
}

TEST_P(PagedPlacement, RefusesPagesThatCannotBe) {
  for (const char* page : {"page=5000", "page=4MiB"}) {
    const auto result = only("apps/va", {"n=9000", page});
    EXPECT_NE(result.skipped.value_or("").find("power of two"), std::string::npos) << complaint(result);
  }
}

TEST_P(PagedPlacement, RefusesQueuesThatCannotBe) {
  const auto many = only("apps/va", {"n=9000", "transport=proxy", "queues=1025"});
  EXPECT_EQ(many.skipped, "there are at most 1024 queues, and queues is 1025");
  const auto none = only("apps/va", {"n=9000", "queues=3"});
  EXPECT_NE(none.skipped.value_or("").find("use no queues: omit queues=3"), std::string::npos) << complaint(none);
}

TEST_P(PagedPlacement, EachArrayHasARelayOfItsQueues) {
  configure(GetParam() + std::string(",devices=2"));
  for (const char* queues : {"queues=0", "queues=1", "queues=3"}) {
    const auto result = only("apps/va", {"n=262144", "page=4KiB", "transport=relay", queues});
    EXPECT_EQ(result.verification.verdict, harness::Verdict::pass) << queues << complaint(result);
    EXPECT_GT(value_of(result, "fetched"), 0);
    EXPECT_EQ(value_of(result, "served"), value_of(result, "fetched"));
  }
}

// Memory must not be freed on a device while another array's relay runs there, because freeing waits until the relay
// gives up.
TEST_P(PagedPlacement, NothingIsFreedBesideARelayAtWork) {
  configure(GetParam() + std::string(",devices=2,timeout=120"));
  const auto begin = std::chrono::steady_clock::now();
  const auto third = only("apps/va", {"n=262144", "page=4KiB", "transport=relay", "queues=6"});
  EXPECT_NE(third.skipped.value_or("").find("and other relays use 12, so 6 do not fit"), std::string::npos)
      << complaint(third);
  for (int call = 1; call <= 24; call += 3) {
    device::set_injection(fmt::format("launch:{}", call));
    only("apps/va", {"n=65536", "page=4KiB", "transport=relay", "queues=2"});
  }
  device::set_injection("");
  const auto after = only("apps/va", {"n=65536", "page=4KiB", "transport=relay", "queues=5"});
  EXPECT_EQ(after.verification.verdict, harness::Verdict::pass) << complaint(after);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(100));
}

TEST_P(PagedPlacement, IsForThoseThatSaySo) {
  EXPECT_EQ(only("apps/lud", {"n=33"}).skipped, "apps/lud has no placement paged");
  const auto none = only("paged/none", {});
  EXPECT_EQ(none.skipped, "paged/none has no kernels that fetch their own pages");
}

TEST_P(PagedPlacement, ItsAxesMeanNoOtherPlacement) {
  const auto alone = only("apps/va", {"n=9000", "frames=25"}, {"pinned"});
  EXPECT_NE(alone.skipped.value_or("").find("is for placement paged"), std::string::npos) << complaint(alone);
  const auto plain = only("apps/va", {"n=9000"}, {"pinned"});
  EXPECT_EQ(plain.spec.find(kFramesAxis), nullptr);
  EXPECT_EQ(only("apps/va", {"n=262144"}).spec.integer(kFramesAxis), 50);
}

INSTANTIATE_TEST_SUITE_P(Machines, PagedPlacement, testing::Values("warp=32", "warp=64,order=reverse"));

}  // namespace
}  // namespace isthmus::microbench
