// Tests of computations that use only the durations of a job's phases: the ideal time of each mode, and whether
// overlapping is worth it.

#include "interjob/costs.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace isthmus::interjob {
namespace {

constexpr double kMs = 1e-3;
const Costs kJob{.allocate = 2 * kMs,
                 .submit = 0,
                 .in = 4 * kMs,
                 .kernel = 3 * kMs,
                 .out = 1 * kMs,
                 .finish = 0,
                 .release = 1 * kMs,
                 .job = 11 * kMs};

TEST(Ideal, IsOneJobAndTheBusiestOfTheOthers) {
  const auto of = [](Mode mode, std::size_t jobs, int depth = 3, int threads = 1) {
    return ideal(kJob, mode, jobs, depth, threads);
  };
  EXPECT_DOUBLE_EQ(of(Mode::serial, 10).seconds, 110 * kMs);
  EXPECT_DOUBLE_EQ(of(Mode::overlap_alloc, 10).seconds, (11 + 9 * 8) * kMs);
  EXPECT_EQ(of(Mode::overlap_alloc, 10).busiest, "stream");
  EXPECT_DOUBLE_EQ(of(Mode::overlap_all, 10).seconds, (11 + 9 * 4) * kMs);
  EXPECT_EQ(of(Mode::overlap_all, 10).busiest, "in");
  EXPECT_DOUBLE_EQ(of(Mode::recycled, 10).seconds, (11 + 9 * 4) * kMs);
  EXPECT_DOUBLE_EQ(of(Mode::overlap_all, 1).seconds, 11 * kMs);
  EXPECT_DOUBLE_EQ(of(Mode::overlap_all, 0).seconds, 0);
}

TEST(Ideal, MemoryThatIsSlowToGetIsTheAllocatingThreads) {
  Costs slow = kJob;
  slow.allocate = 24 * kMs;
  slow.job = 33 * kMs;
  EXPECT_EQ(ideal(slow, Mode::overlap_all, 16, 3, 1).busiest, "allocating");
  EXPECT_DOUBLE_EQ(ideal(slow, Mode::overlap_all, 16, 3, 1).seconds, (33 + 15 * 24) * kMs);
  EXPECT_DOUBLE_EQ(ideal(slow, Mode::overlap_all, 16, 3, 4).seconds, (33 + 15 * 6) * kMs);
  // Only the first three jobs allocate memory, which later jobs use again, so allocating is not the busiest resource.
  EXPECT_DOUBLE_EQ(ideal(slow, Mode::recycled, 64, 3, 1).seconds, (33 + 63 * 4) * kMs);
  EXPECT_EQ(ideal(slow, Mode::recycled, 4, 3, 1).busiest, "allocating");
  EXPECT_DOUBLE_EQ(ideal(slow, Mode::recycled, 4, 3, 1).seconds, (3 * 24 + 9 + 2 * 1) * kMs);
}

TEST(Costs, AreMeansOverJobsThatDidNotFail) {
  std::vector<Outcome> jobs(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const double at = 10.0 * static_cast<double>(i), longer = i == 1 ? 2 : 1;
    jobs[i].allocate = {at, at + longer};
    jobs[i].kernel = {at + 3, at + 3 + longer};
    jobs[i].release = {at + 6, at + 7};
  }
  jobs[2].failure = std::make_exception_ptr(std::runtime_error("no"));
  const auto costs = costs_of(jobs);
  EXPECT_DOUBLE_EQ(costs.allocate, 1.5);
  EXPECT_DOUBLE_EQ(costs.kernel, 1.5);
  EXPECT_DOUBLE_EQ(costs.in, 0);
  EXPECT_DOUBLE_EQ(costs.job, 7);
  EXPECT_FALSE(costs_of({}).known());
  EXPECT_FALSE(costs_of(std::span(jobs).last(1)).known());
}

TEST(Judging, WeighsTheGainAgainstWhatThreadsCost) {
  const Options all{.mode = Mode::overlap_all};
  EXPECT_TRUE(judge(kJob, {.wake = 1e-5, .start = 1e-4}, all, 16).overlap);
  EXPECT_FALSE(judge(kJob, {.wake = 9 * kMs, .start = 1e-4}, all, 16).overlap) << "each thread is woken for each job";
  EXPECT_FALSE(judge(kJob, {.wake = 0, .start = 0.1}, all, 16).overlap) << "threads take as long to start as the batch";
  EXPECT_FALSE(judge(kJob, {}, all, 1).overlap) << "one job has nobody to overlap with";
  EXPECT_FALSE(judge({}, {}, all, 16).overlap) << "nothing is known";
  Costs kernel{.kernel = 10 * kMs, .release = 0.1 * kMs, .job = 10.1 * kMs};
  EXPECT_FALSE(judge(kernel, {}, all, 64).overlap) << "there is next to nothing to hide";
}

TEST(Judging, CallsOfTheDriverWaitForEachOther) {
  // Allocating and freeing take two sevenths of a job each. In theory, overlap could hide half of the batch's time.
  const Options all{.mode = Mode::overlap_all};
  const Costs calls{.allocate = 1 * kMs,
                    .submit = 0.1 * kMs,
                    .in = 0.7 * kMs,
                    .kernel = 0.7 * kMs,
                    .release = 1 * kMs,
                    .job = 3.5 * kMs};
  EXPECT_LT(ideal(calls, Mode::overlap_all, 64, 3, 1).seconds, 64 * 1.1 * kMs + 4 * kMs);
  const auto verdict = judge(calls, {}, all, 64);
  EXPECT_FALSE(verdict.overlap) << verdict.reason;
  EXPECT_NE(verdict.reason.find("the driver is busiest"), std::string::npos) << verdict.reason;
  EXPECT_TRUE(judge(calls, {}, {.mode = Mode::recycled}, 64).overlap) << "it calls for the first jobs only";
  Costs mapped = calls;
  mapped.memory.handed_on = false;
  EXPECT_FALSE(judge(mapped, {}, {.mode = Mode::recycled}, 64).overlap);
  Costs locking = calls;
  locking.memory.page_locked = true;
  EXPECT_TRUE(judge(locking, {}, all, 64).overlap);
}

TEST(Judging, FreeingThatWaitsLetsNothingOverlapIt) {
  Costs job{.allocate = 0.3 * kMs, .in = 2 * kMs, .kernel = 2 * kMs, .release = 0.3 * kMs, .job = 4.6 * kMs};
  const Options alloc{.mode = Mode::overlap_alloc}, all{.mode = Mode::overlap_all};
  EXPECT_TRUE(judge(job, {}, alloc, 64).overlap);
  job.memory.freeing_waits = true;
  EXPECT_FALSE(judge(job, {}, alloc, 64).overlap) << "only the calls could have been hidden";
  EXPECT_TRUE(judge(job, {}, all, 64).overlap) << "copies run concurrently with kernels all the same";
  job.memory.faults = true;
  EXPECT_FALSE(judge(job, {}, all, 64).overlap);
}

TEST(Judging, MemoryTraitsFollowFromTheRequests) {
  const std::vector<Request> pool{{Kind::pool, 1}}, chunks{{Kind::pool, 1}, {kChunked, 1}}, managed{{Kind::managed, 1}},
      own_buffers{{Kind::vmm, 1}, {Kind::pinned, 1}}, plain{{Kind::device, 1}};
  EXPECT_TRUE(memory_traits_of(pool).handed_on);
  EXPECT_FALSE(memory_traits_of(chunks).handed_on);
  EXPECT_TRUE(memory_traits_of(managed).faults && memory_traits_of(managed).freeing_waits);
  EXPECT_TRUE(memory_traits_of(own_buffers).page_locked);
  EXPECT_TRUE(memory_traits_of(plain).freeing_waits && !memory_traits_of(plain).faults);
}

TEST(Judging, WhatWasSeenBeatsWhatIsExpected) {
  const Options all{.mode = Mode::overlap_all};
  Costs seen = kJob;
  seen.overlapped[Mode::overlap_all] = {.job = 20 * kMs, .batches = 1};
  EXPECT_TRUE(judge(seen, {}, all, 16).overlap) << "the first may have been cold";
  seen.overlapped[Mode::overlap_all].batches = 2;
  EXPECT_FALSE(judge(seen, {}, all, 16).overlap);
  EXPECT_TRUE(judge(seen, {}, {.mode = Mode::recycled}, 16).overlap) << "of another mode nothing was seen";
  seen.overlapped[Mode::overlap_all].job = 5 * kMs;
  EXPECT_TRUE(judge(seen, {.wake = 1, .start = 1}, all, 16).overlap);
  // The best overlapped batch is compared with the best serial batch, not with a slow one.
  seen.least = 4.9 * kMs;
  EXPECT_FALSE(judge(seen, {}, all, 16).overlap);
}

TEST(Threads, CostSomethingToWakeAndToStart) {
  EXPECT_GT(thread_costs().wake, 0);
  EXPECT_GT(thread_costs().start, 0);
  EXPECT_LT(thread_costs().wake, 1);
}

}  // namespace
}  // namespace isthmus::interjob
