// Tests of ranks without MPI: threads of this process run one case together. Whatever happens on one rank, at whatever
// point, all ranks must end the case with the same outcome.

#include "harness/ranks/ranks.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/measure/case/case_runner.hpp"
#include "harness/plan/plan.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/ranks/process.hpp"
#include "harness/record/record.hpp"
#include "harness/record/schema_check.hpp"

namespace isthmus::harness {
namespace {

constexpr int kRanks = 3;

struct Meeting {
  std::barrier<> barrier{kRanks};
  std::vector<std::string> texts = std::vector<std::string>(kRanks);
};

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return kRanks; }
  int local_rank() const noexcept override { return rank_; }
  int local_size() const noexcept override { return kRanks; }
  std::string library() const override { return "threads"; }
  void barrier() override { meeting_.barrier.arrive_and_wait(); }
  std::vector<std::string> gather(std::string_view mine) override {
    meeting_.texts[static_cast<std::size_t>(rank_)] = mine;
    barrier();
    auto all = meeting_.texts;
    barrier();
    return all;
  }
  void send(int, const std::byte*, std::size_t) override {}
  void receive(int, std::byte*, std::size_t) override {}
  void exchange(std::span<const Message>) override {}
  std::optional<std::string> refuses_gpu_memory() const override { return "threads have no GPU"; }
  [[noreturn]] void abort(int exit_code) noexcept override { std::_Exit(exit_code); }

 private:
  Meeting& meeting_;
  int rank_;
};

/// Exchanges values before and during its samples, and passes numbered points. Rank `on` does `what` at the point with
/// number `point`.
void steps(Case& c) {
  auto& team = c.team();
  int point = 0;
  bool wrong = false;
  const auto pass = [&] {
    if (point++ != c.integer("point") || team.rank() != c.integer("on")) return;
    const auto what = c.choice("what");
    if (what == "fail") throw std::runtime_error("it broke");
    if (what == "skip") throw Skip("it cannot");
    if (what == "wrong") wrong = true;
    if (what == "warn") c.warn("odd", "it is odd");
    if (what == "interrupt") request_interrupt();
    if (what == "diverge") team.exchange(0.0);
  };
  pass();
  c.needs(0, 0);
  pass();
  team.exchange(1.0);
  pass();
  for (const char* name : {"first", "second"}) {
    c.sampling().sample(workload::time_metric(name, "clock"), [&] {
      pass();
      team.start();
      const auto all = team.exchange(static_cast<double>(team.rank()));
      c.sampling().end_if_interrupted();
      pass();
      if (c.choice("what") == "invalidate" && team.rank() == c.integer("on") && point > 10)
        c.sampling().invalidate("odd", "it is odd");
      // Every rank has different noise, so the ranks stop together only if they agree to.
      return 1 + 1e-2 * static_cast<double>(
                            hash(static_cast<std::uint64_t>(team.rank()), 0, static_cast<std::uint64_t>(point)) % 100);
    });
  }
  pass();
  c.verify("nothing is wrong", [wrong] { return wrong ? 1.0 : 0.0; }, 0);
  pass();
}

const Registration registration =
    Workload("several/steps", steps)
        .summary("exchanges of several ranks")
        .metrics({"first", "second"})
        .cpu_only()
        .several_ranks()
        .axis({.name = "point", .help = "where", .default_value = std::int64_t{-1}, .minimum = -1})
        .axis({.name = "on", .help = "rank", .default_value = std::int64_t{1}, .minimum = 0})
        .axis({.name = "what",
               .help = "what happens there",
               .default_value = "nothing",
               .choices = {"nothing", "fail", "skip", "wrong", "warn", "interrupt", "diverge", "invalidate"}});

std::vector<CaseResult> run(std::vector<std::string> settings, std::optional<int> samples = 3) {
  RequestTexts request{.patterns = {"several/steps"}};
  request.settings = std::move(settings);
  const auto spec = plan(parse_request(request)).front();
  Meeting meeting;
  std::vector<CaseResult> results(kRanks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadRanks ranks(meeting, rank);
        RunContext context;
        context.sampling.samples = samples;
        context.ranks = &ranks;
        results[static_cast<std::size_t>(rank)] = run_case(spec, context);
      });
    }
  }
  clear_interrupt();
  return results;
}

std::string at(int point, int rank) {
  return "point " + std::to_string(point) + " on rank " + std::to_string(rank);
}

// Number of points: 3 before the samples; for each of two metrics, 2 in each of 2 warm-ups and 3 samples; and 2 at the
// end.
constexpr int kPoints = 3 + 2 * 5 * 2 + 2;

// A process cannot wait for one that is not its child, and must not report that process's end as success.
TEST(Process, AnEndThatCannotBeAskedForIsNoSuccess) {
  EXPECT_THROW(wait_for(getppid(), false), std::runtime_error);
}

TEST(Ranks, RunACaseTogether) {
  for (const auto& result : run({})) {
    EXPECT_FALSE(result.error) << *result.error;
    EXPECT_EQ(result.verification.verdict, Verdict::pass);
    ASSERT_EQ(result.metrics.size(), 2u);
    EXPECT_EQ(result.metrics[1].samples.size(), 3u);
  }
}

TEST(Ranks, AFailureAnywhereOnOneEndsTheCaseOnAll) {
  for (int point = 0; point < kPoints; ++point) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<std::string> where{"point=" + std::to_string(point), "on=" + std::to_string(rank)};
      for (const std::string what : {"fail", "skip"}) {
        auto settings = where;
        settings.push_back("what=" + what);
        for (const auto& result : run(settings)) {
          const auto& told = what == "fail" ? result.error : result.skipped;
          ASSERT_TRUE(told) << at(point, rank);
          EXPECT_EQ(*told, "rank " + std::to_string(rank) + (what == "fail" ? ": it broke" : ": it cannot"));
          EXPECT_EQ(result.verification.verdict, Verdict::not_run) << at(point, rank);
        }
      }
    }
  }
}

TEST(Ranks, ThatGoDifferentWaysSaySo) {
  for (int point = 0; point < kPoints; ++point) {
    for (const auto& result : run({"point=" + std::to_string(point), "what=diverge"}))
      EXPECT_TRUE(result.error) << at(point, 1);
  }
}

TEST(Ranks, AWrongResultOfOneIsTheCases) {
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const auto& result : run({"point=23", "what=wrong", "on=" + std::to_string(rank)})) {
      EXPECT_EQ(result.verification.verdict, Verdict::fail);
      EXPECT_TRUE(result.verification.detail.starts_with("rank " + std::to_string(rank) + ": "));
      EXPECT_TRUE(result.failed());
    }
  }
}

TEST(Ranks, StopSamplingTogether) {
  const auto results = run({}, std::nullopt);
  for (const auto& result : results) {
    ASSERT_EQ(result.metrics.size(), 2u);
    for (std::size_t m = 0; m < 2; ++m) {
      EXPECT_EQ(result.metrics[m].samples.size(), results[0].metrics[m].samples.size());
      EXPECT_EQ(result.metrics[m].stop, results[0].metrics[m].stop);
    }
  }
}

TEST(Ranks, AnInterruptAnywhereEndsAllAfterTheSameSample) {
  for (int point = 0; point < kPoints; ++point) {
    const auto results = run({"point=" + std::to_string(point), "what=interrupt"});
    for (const auto& result : results) {
      ASSERT_EQ(result.metrics.size(), results[0].metrics.size()) << at(point, 1);
      for (std::size_t m = 0; m < result.metrics.size(); ++m)
        EXPECT_EQ(result.metrics[m].samples.size(), results[0].metrics[m].samples.size()) << at(point, 1);
      EXPECT_EQ(result.interrupted, results[0].interrupted) << at(point, 1);
      EXPECT_EQ(result.error, results[0].error) << at(point, 1);
    }
  }
}

TEST(Ranks, AWarningNamesItsRankUnlessAllGiveIt) {
  for (const auto& result : run({"point=1", "on=2", "what=warn"})) {
    ASSERT_EQ(result.warnings.size(), 1u);
    EXPECT_EQ(result.warnings[0].message, "rank 2: it is odd");
  }
}

TEST(Ranks, ASampleInvalidOnOneCountsOnNone) {
  const auto results = run({"on=2", "what=invalidate"});
  for (const auto& result : results) {
    EXPECT_FALSE(result.metrics[1].invalid.empty());
    EXPECT_EQ(result.metrics[1].invalid, results[0].metrics[1].invalid);
  }
}

TEST(Ranks, OneProcessSkipsWhatSeveralMeasure) {
  RequestTexts request{.patterns = {"several/steps"}};
  const auto result = run_case(plan(parse_request(request)).front(), {});
  ASSERT_TRUE(result.skipped);
  EXPECT_NE(result.skipped->find("this build has no MPI"), std::string::npos);
}

TEST(Ranks, AreInTheRecord) {
  const RunIdentity identity{.id = "0123456789",
                             .command = {"test"},
                             .process = 1,
                             .seed = 42,
                             .ranks = {{"n1", 0, "GPU-a"}, {"n1", 1, "GPU-b", "4-7"}, {"n2", 0, ""}},
                             .ranks_library = "threads"};
  const auto result = run({})[0];
  const auto record = record_json(identity, result);
  const auto violations = record_schema_check().violations(record);
  EXPECT_TRUE(violations.empty()) << violations.front();
  EXPECT_EQ(record["ranks"]["count"], 3);
  EXPECT_EQ(record["ranks"]["each"][1]["device"], "GPU-b");
  EXPECT_EQ(record["ranks"]["each"][1]["cpus"], "4-7");
  EXPECT_TRUE(record["ranks"]["each"][0]["cpus"].is_null());
  EXPECT_TRUE(record["ranks"]["each"][2]["device"].is_null());

  // The number of ranks is part of a case's identity.
  EXPECT_EQ(case_identity(record), case_identity(identity, result.spec, std::nullopt, 0));
  auto fewer = identity;
  fewer.ranks.pop_back();
  EXPECT_NE(case_identity(record), case_identity(fewer, result.spec, std::nullopt, 0));
  fewer.ranks.clear();
  EXPECT_FALSE(record_json(fewer, result).contains("ranks"));
}

TEST(Launched, BelievesTheInnermostLauncher) {
  const auto with = [](const std::vector<std::pair<const char*, const char*>>& variables) {
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    const auto found = launched();
    for (const auto& [name, value] : variables) unsetenv(name);
    return std::pair(found.rank, found.size);
  };
  EXPECT_EQ(with({}), std::pair(0, 1));
  EXPECT_EQ(with({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), std::pair(1, 4));
  EXPECT_EQ(with({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}), std::pair(2, 3));
  EXPECT_EQ(with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}), std::pair(1, 2));
  // One process started by mpirun -n 1 within a Slurm step of two tasks.
  EXPECT_EQ(with({{"OMPI_COMM_WORLD_RANK", "0"},
                  {"OMPI_COMM_WORLD_SIZE", "1"},
                  {"SLURM_PROCID", "1"},
                  {"SLURM_STEP_NUM_TASKS", "2"}}),
            std::pair(0, 1));
  EXPECT_EQ(with({{"PMI_RANK", "x"}, {"PMI_SIZE", "3"}}), std::pair(0, 1));
}

}  // namespace
}  // namespace isthmus::harness
