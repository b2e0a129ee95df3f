// Tests of interjob/*: every kind of job, memory and mode. Results are checked, and memory caps must be kept.

#include <algorithm>

#include "catalogue.hpp"
#include "emulator/emulator.hpp"
#include "microbench/interjob/batch.hpp"

namespace isthmus::microbench {
namespace {

using harness::CaseResult;

class InterJob : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    emulator::configure(emulator::parse(GetParam()));
    free_ = device::memory_info().free;
  }
  void TearDown() override {
    EXPECT_EQ(device::memory_info().free, free_);
    emulator::configure({});
    emulator::reset();
  }
  std::size_t free_ = 0;
};

std::string of_mode(const std::string& mode, const char* what) {
  return mode + "_" + what;
}

double value(const CaseResult& result, const std::string& metric) {
  for (const auto& each : result.metrics)
    if (each.name == metric) return each.samples.at(0);
  ADD_FAILURE() << result.spec.label() << " has no " << metric;
  return 0;
}

TEST_P(InterJob, EveryJobIsRightInEveryMemoryAndMode) {
  const std::vector<std::string> small{"n=33", "jobs=5", "force=1", "allocation=all", "host=all"};
  std::vector<CaseResult> results = run_cases("interjob/gemv", {}, {}, small);
  ASSERT_EQ(results.size(), 15u);
  for (const char* jobs : {"interjob/saxpy", "interjob/conv2d", "interjob/gemm", "interjob/mixed"})
    std::ranges::move(run_cases(jobs, {}, {}, {"n=65", "jobs=6", "force=1", "allocation=chunked,pool"}),
                      std::back_inserter(results));
  EXPECT_EQ(results.size(), 23u);
  for (const auto& result : results) {
    EXPECT_EQ(complaint(result), "") << result.spec.label();
    for (const char* mode : {"overlap_alloc", "overlap_all", "recycled"}) {
      EXPECT_GT(value(result, of_mode(mode, "time")), 0) << result.spec.label();
      EXPECT_GT(value(result, of_mode(mode, "ideal")), 0) << result.spec.label();
      EXPECT_TRUE(result.notes.at(of_mode(mode, "ran")).ends_with(": forced"));
      EXPECT_EQ(std::ranges::count(result.notes.at(of_mode(mode, "timeline")), '['), 1 + result.spec.integer("jobs"));
    }
  }
}

TEST_P(InterJob, ACapIsKeptOrRefused) {
  for (const char* allocation : {"device", "chunked"}) {
    const auto results = run_cases("interjob/conv2d", {}, {},
                                   {"n=512", "jobs=6", "force=1", "cap=130", "room=fail,wait", "mode=overlap_all",
                                    "chunk=64KiB", std::string("allocation=") + allocation});
    ASSERT_EQ(results.size(), 2u);
    for (const auto& result : results) {
      const bool lost = complaint(result).find("jobs_failed") != std::string::npos;
      EXPECT_TRUE(complaint(result).empty() || (lost && result.spec.choice("room") == "fail")) << complaint(result);
      EXPECT_LE(value(result, "overlap_all_peak"), 1.3 * 2 * 512 * 512 * 4) << result.spec.label();
    }
  }
}

TEST_P(InterJob, UnforcedItSaysWhatItDidAndWhy) {
  const auto results =
      run_cases("interjob/gemv", {}, {}, {"n=64", "jobs=4", "mode=overlap_alloc", "allocation=device"});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(complaint(results[0]), "");
  const auto& ran = results[0].notes.at("overlap_alloc_ran");
  EXPECT_TRUE(ran.starts_with("serial: ") || ran.starts_with("overlap_alloc: ")) << ran;
  EXPECT_NE(ran.find(" ms"), std::string::npos) << ran;
}

TEST_P(InterJob, AWrongResultIsFound) {
  auto recipe = interjob::recipe("gemv", 64, 7);
  recipe.queue = [queue = recipe.queue](device::Stream& stream, std::span<void* const> on) {
    queue(stream, on);
    device::fill_async(on[2], 0, sizeof(float), stream);  // overwrites the first element of the result
  };
  interjob::JobBatch batch({.recipes = {recipe}, .jobs = 3, .seed = 7});
  batch.run(memory::Kind::device, {.force = true});
  EXPECT_GT(batch.worst(), 1);

  // A job whose kernel does not run is detected, because its input differs from that of the previous job.
  auto stale = interjob::recipe("conv2d", 64, 7);
  stale.queue = [queue = stale.queue, calls = 0](device::Stream& stream, std::span<void* const> on) mutable {
    if (calls++ != 1) queue(stream, on);
  };
  interjob::JobBatch again({.recipes = {stale}, .jobs = 3, .depth = 1, .seed = 7});
  again.run(memory::Kind::device, {.mode = isthmus::interjob::Mode::recycled, .force = true, .depth = 1});
  EXPECT_GT(again.worst(), 1);
}

TEST_P(InterJob, ABatchThatLostJobsDoesNotCount) {
  const auto results =
      run_cases("interjob/conv2d", {}, {},
                {"n=512", "jobs=6", "cap=90", "room=fail,wait", "mode=overlap_all", "allocation=pool"});
  ASSERT_EQ(results.size(), 2u);
  for (const auto& result : results) {  // the cap is too small for any job
    EXPECT_NE(complaint(result), "");
    const auto* time = result.find("overlap_all_time");
    if (result.spec.choice("room") == "wait") continue;
    ASSERT_NE(time, nullptr);
    EXPECT_FALSE(time->samples.empty());
    EXPECT_TRUE(time->valid().empty());
    EXPECT_NE(complaint(result).find("every sample of"), std::string::npos) << complaint(result);
    EXPECT_TRUE(std::ranges::any_of(result.warnings, [](const auto& each) { return each.code == "jobs_failed"; }));
  }
}

TEST_P(InterJob, CallsAloneAndReusedMemoryAreMeasured) {
  for (const char* host : {"pinned", "per-job", "pageable"}) {
    const auto results =
        run_cases("interjob/gemm", {}, {},
                  {"n=128", "jobs=6", "mode=overlap_all", "allocation=managed", std::string("host=") + host});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(complaint(results[0]), "");
    for (const char* metric : {"calls_allocate", "calls_submit", "calls_release", "calls_job", "calls_time",
                               "reused_in", "reused_kernel", "reused_out"})
      EXPECT_GT(value(results[0], metric), 0) << metric;
  }
}

INSTANTIATE_TEST_SUITE_P(Emulators, InterJob, testing::Values("warp=32", "warp=64,order=reverse"),
                         [](const auto& test) { return "Machine" + std::to_string(test.index); });

}  // namespace
}  // namespace isthmus::microbench
