#include "harness/record/record.hpp"
#include "../temporary_path.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "harness/measure/case/case_runner.hpp"
#include "harness/measure/watch/limits.hpp"
#include "harness/measure/watch/memory_peak.hpp"
#include "harness/measure/watch/stolen_time.hpp"
#include "harness/plan/plan.hpp"
#include "harness/plan/registry.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/record/host_facts.hpp"
#include "harness/record/job_allocation.hpp"
#include "harness/record/read_json.hpp"
#include "harness/record/record_file.hpp"
#include "harness/record/schema_check.hpp"

namespace isthmus::harness {
namespace {

using nlohmann::json;

RunContext context() {
  RunContext c;
  c.device = device::info(0);
  return c;
}

CaseSpec spec_of(const std::string& workload, std::vector<std::string> settings = {}, const std::string& mode = "") {
  RequestTexts request{.patterns = {workload}};
  request.settings = std::move(settings);
  if (!mode.empty()) request.modes = {mode};
  request.sizes = {"tiny"};
  return plan(parse_request(request)).front();
}

json record_of(const CaseSpec& spec, const RunContext& c = context()) {
  return record_json({.id = "0123456789", .command = {"test"}, .process = 1, .seed = c.seed}, run_case(spec, c));
}

std::vector<double> samples(const json& record, const std::string& name) {
  for (const auto& metric : record["metrics"]) {
    if (metric["name"] == name) return metric["samples"].get<std::vector<double>>();
  }
  return {};
}

void expect_valid(const json& record) {
  const auto violations = record_schema_check().violations(record);
  EXPECT_TRUE(violations.empty()) << violations.front();
}

TEST(Allocation, IsWhatSlurmSays) {
  const auto within = [](const std::vector<std::pair<const char*, const char*>>& variables) {
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    const auto record = record_of(spec_of("fixture/saxpy", {}, "pm"));
    for (const auto& [name, value] : variables) unsetenv(name);
    expect_valid(record);
    return record["run"]["allocation"];
  };
  EXPECT_TRUE(within({{"SLURM_JOB_PARTITION", "main"}}).is_null()) << "outside of a job";
  const auto granted = within({{"SLURM_JOB_ID", "7"},
                               {"SLURM_JOB_ACCOUNT", "site"},
                               {"SLURM_JOB_PARTITION", "main"},
                               {"SLURM_JOB_NODELIST", "node[1-2]"},
                               {"SLURM_JOB_NUM_NODES", "2"},
                               {"SLURM_CPUS_ON_NODE", "64"},
                               {"SLURM_GPUS_ON_NODE", "4(x2)"},
                               {"ISTHMUS_JOB_SHARING", "OK"}});
  EXPECT_EQ(granted["account"], "site");
  EXPECT_EQ(granted["nodes"], "node[1-2]");
  EXPECT_EQ(granted["node_count"], 2);
  EXPECT_EQ(granted["cpus"], 64);
  EXPECT_TRUE(granted["gpus"].is_null()) << "no number";
  EXPECT_TRUE(granted["qos"].is_null());
  EXPECT_EQ(granted["exclusive"], false);
  EXPECT_EQ(within({{"SLURM_JOB_ID", "7"}, {"ISTHMUS_JOB_SHARING", "NO"}})["exclusive"], true);
}

TEST(Allocation, NumbersAreWrittenAsRanges) {
  EXPECT_EQ(number_ranges({}), "");
  EXPECT_EQ(number_ranges({3}), "3");
  EXPECT_EQ(number_ranges({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
}

TEST(SchemaCheck, RefusesAKeywordItDoesNotKnow) {
  EXPECT_THROW(SchemaCheck(R"({"type": "object", "patternProperties": {}})"), std::invalid_argument);
  EXPECT_THROW(SchemaCheck(R"({"properties": {"a": {"not": {}}}})"), std::invalid_argument);
}

TEST(SchemaCheck, FindsEachKindOfViolation) {
  const SchemaCheck check(R"({
    "type": "object", "additionalProperties": false, "required": ["a"],
    "properties": {
      "a": {"type": "integer", "minimum": 1, "maximum": 9},
      "b": {"type": ["string", "null"], "pattern": "^x+$", "minLength": 2},
      "c": {"enum": ["p", "q", null]},
      "d": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "minItems": 1, "maxItems": 2},
      "e": {"const": "k"},
      "f": {"oneOf": [{"type": "null"}, {"type": "array"}]},
      "g": {"type": "object", "additionalProperties": {"type": "boolean"}}
    }})");
  const auto valid = [&](const char* text) { return check.violations(json::parse(text)).empty(); };
  EXPECT_TRUE(valid(R"({"a": 1, "b": "xx", "c": null, "d": [0.5], "e": "k", "f": null, "g": {"h": true}})"));
  for (const char* wrong :
       {R"([])", R"({})", R"({"a": 0})", R"({"a": 10})", R"({"a": 1.5})", R"({"a": 1, "b": 3})",
        R"({"a": 1, "b": "x"})", R"({"a": 1, "b": "xy"})", R"({"a": 1, "c": "r"})", R"({"a": 1, "d": []})",
        R"({"a": 1, "d": [1, 2, 3]})", R"({"a": 1, "d": [0]})", R"({"a": 1, "d": ["1"]})", R"({"a": 1, "e": "l"})",
        R"({"a": 1, "f": 1})", R"({"a": 1, "g": {"h": 1}})", R"({"a": 1, "z": 1})"})
    EXPECT_FALSE(valid(wrong)) << wrong;
}

TEST(Record, EveryPlacementOfEveryFixtureIsValid) {
  RequestTexts request{.patterns = {"fixture/*"}};
  request.placements = request.stagings = {"all"};
  request.sizes = {"tiny"};
  int passed = 0;
  for (const auto& spec : plan(parse_request(request))) {
    SCOPED_TRACE(spec.label());
    const auto record = record_of(spec);
    expect_valid(record);
    EXPECT_TRUE(record["error"].is_null()) << record["error"];
    EXPECT_EQ(record["emulated"].get<bool>(), spec.workload->name() != "fixture/host_loop");
    if (record["skipped"].is_null()) {
      EXPECT_EQ(record["verify"]["status"], "pass") << record["verify"].dump();
      ++passed;
    } else {
      EXPECT_EQ(record["verify"]["status"], "not_run");
    }
  }
  EXPECT_GE(passed, 28);
}

TEST(Record, MetricsFollowThePlacement) {
  const auto pinned = record_of(spec_of("fixture/saxpy", {}, "pm"));
  for (const char* name : {"host_alloc", "host_touch", "device_alloc", "in", "kernel", "out", "free", "first_in",
                           "first_kernel", "first_out", "overlapped", "sync_cost", "wall", "paper_total", "in_rate",
                           "out_rate", "kernel_rate", "kernel_flop_rate"})
    EXPECT_FALSE(samples(pinned, name).empty()) << name;
  EXPECT_TRUE(samples(pinned, "overlap").empty());
  EXPECT_EQ(pinned["notes"]["overlap"], "withheld: one sample gives no error estimate");
  RequestTexts request{.patterns = {"fixture/saxpy"}};
  request.placements = {"mapped"};
  request.sizes = {"tiny"};
  const auto mapped = record_of(plan(parse_request(request)).front());
  for (const char* name : {"in", "out", "device_alloc", "in_rate"}) EXPECT_TRUE(samples(mapped, name).empty()) << name;
  EXPECT_FALSE(samples(mapped, "kernel").empty());
}

TEST(MemoryPeak, IsTheMostOverWhatWasThereBefore) {
  std::vector<std::optional<std::size_t>> seen{100, 150, 120};
  std::size_t next = 0;
  const auto read = [&] { return seen.at(next++); };
  MemoryPeak peak(read);
  EXPECT_EQ(peak.bytes(), 0.0);
  peak.look();
  peak.look();
  EXPECT_EQ(peak.bytes(), 50.0);
  next = 0, seen = {100, 80};
  MemoryPeak falls(read);
  falls.look();
  EXPECT_EQ(falls.bytes(), 0.0) << "others freed some meanwhile";
  next = 0, seen = {std::nullopt, std::nullopt};
  MemoryPeak unknown(read);
  unknown.look();
  EXPECT_FALSE(unknown.bytes());
}

TEST(MemoryPeak, OfCopiesIsMoreThanOfOneMemoryByTheDevices) {
  const double mib = 1 << 20, n = 8 * mib, buffers = 2 * 4 * n;  // bytes in two buffers of n floats
  const auto peak = [&](const char* placement) {
    RequestTexts request{.patterns = {"fixture/saxpy"}, .settings = {"n=8388608"}};
    request.placements = {placement};
    const auto seen = samples(record_of(plan(parse_request(request)).front()), "memory_peak");
    EXPECT_EQ(seen.size(), 1u);
    return seen.empty() ? 0 : seen.front();
  };
  // The emulated device's memory is memory of the process, so the counters of host and of device memory include it.
  EXPECT_NEAR(peak("mapped"), buffers, 8 * mib);
  EXPECT_NEAR(peak("pageable"), 3 * buffers, 24 * mib);
}

TEST(Record, TotalsAndRatesAreWhatTheirNamesSay) {
  auto c = context();
  c.sampling.samples = 4;
  c.sampling.allocation_cycles = 2;
  const auto record = record_of(spec_of("fixture/saxpy", {}, "pm"), c);
  expect_valid(record);
  EXPECT_EQ(samples(record, "host_alloc").size(), 2u);
  EXPECT_EQ(samples(record, "wall").size(), 2u);
  EXPECT_EQ(samples(record, "in").size(), 4u);
  EXPECT_EQ(samples(record, "overlapped").size(), 4u);
  const double bytes = 2 * 4096 * sizeof(float);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(samples(record, "in_rate")[i], bytes / samples(record, "in")[i]);
    EXPECT_DOUBLE_EQ(samples(record, "kernel_rate")[i], 1.5 * bytes / samples(record, "kernel")[i]);
  }
  // `wall` is the host clock's time for all seven phases, so it exceeds the allocations and deallocations of its cycle.
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_GT(samples(record, "wall")[i], samples(record, "host_alloc")[i] + samples(record, "host_touch")[i] +
                                              samples(record, "device_alloc")[i] + samples(record, "free")[i]);
  for (const auto& metric : record["metrics"]) {
    if (metric["name"] == "in") {
      EXPECT_EQ(metric["stop"], "samples");
      EXPECT_EQ(metric["bytes_moved"], bytes);
    }
    EXPECT_FALSE(metric["limit"].is_null() && metric["limit_reason"].is_null()) << metric["name"];
  }
}

TEST(Record, AWrongKernelFailsInEveryPlacement) {
  for (const char* fault : {"fault=wrong", "fault=missing"}) {
    RequestTexts request{.patterns = {"fixture/saxpy"}};
    request.placements = {"all"};
    request.sizes = {"tiny"};
    request.settings = {fault};
    for (const auto& spec : plan(parse_request(request))) {
      const auto record = record_of(spec);
      expect_valid(record);
      if (!record["skipped"].is_null()) continue;
      EXPECT_EQ(record["verify"]["status"], "fail") << spec.label() << " " << fault;
      EXPECT_FALSE(record["verify"]["detail"].is_null());
    }
  }
}

TEST(Record, NothingVerifiedIsAnError) {
  const auto record = record_of(spec_of("fixture/saxpy", {"fault=unverified"}));
  EXPECT_FALSE(record["error"].is_null());
  expect_valid(record);
}

TEST(Record, SkipsForMemoryBeforeAllocating) {
  const auto record = record_of(spec_of("fixture/saxpy", {"n=1099511627776"}));
  EXPECT_EQ(record["skip_kind"], "memory");
  expect_valid(record);
  const auto beyond = record_of(spec_of("fixture/saxpy", {"n=9000000000000000000"}));
  EXPECT_EQ(beyond["skip_kind"], "memory");
  setenv("ISTHMUS_HOST_MEMORY", "16KiB", 1);
  const auto small = record_of(spec_of("fixture/saxpy"));
  unsetenv("ISTHMUS_HOST_MEMORY");
  EXPECT_EQ(small["skip_kind"], "memory");
  expect_valid(small);
  EXPECT_EQ(small["short_of"]["memory"], "host");
  EXPECT_EQ(small["short_of"]["free"], 16384);
  EXPECT_GT(small["short_of"]["needed"], 16384);
  EXPECT_FALSE(record_of(spec_of("fixture/saxpy")).contains("short_of"));
}

TEST(Record, VariablesThatChangeTheRuntimeAreKept) {
  setenv("HSA_XNACK", "1", 1);
  setenv("HSA_ENABLE_SDMA", "", 1);  // an empty variable differs from an unset one
  setenv("ISTHMUS_SECRET_TOKEN", "no business of a record's", 1);
  const auto record = record_of(spec_of("fixture/saxpy"));
  for (const char* name : {"HSA_XNACK", "HSA_ENABLE_SDMA", "ISTHMUS_SECRET_TOKEN"}) unsetenv(name);
  expect_valid(record);
  const auto& environment = record["run"]["environment"];
  EXPECT_EQ(environment.value("HSA_XNACK", ""), "1");
  EXPECT_EQ(environment.value("HSA_ENABLE_SDMA", "unset"), "");
  EXPECT_FALSE(environment.contains("ISTHMUS_SECRET_TOKEN"));
}

TEST(Record, InterruptionsAreMarked) {
  auto c = context();
  c.sampling.samples = 3;
  request_interrupt();
  const auto record = record_of(spec_of("fixture/saxpy"), c);
  clear_interrupt();
  expect_valid(record);
  EXPECT_FALSE(is_settled(record));
}

TEST(Record, InvalidSamplesAreLeftOut) {
  CaseResult result;
  result.spec = spec_of("fixture/saxpy");
  result.verification.verdict = Verdict::pass;
  Series series;
  series.name = "in";
  series.samples = {1, 100, 1, 100};
  series.invalid = {1, 3};
  result.metrics = {series};
  auto record = record_json({.id = "0123456789"}, result);
  EXPECT_EQ(record["metrics"][0]["median"], 1.0);
  result.metrics[0].invalid = {0, 1, 2, 3};
  record = record_json({.id = "0123456789"}, result);
  EXPECT_TRUE(record["metrics"][0]["median"].is_null());
  result.metrics[0].samples[0] = std::nan("");
  record = record_json({.id = "0123456789"}, result);
  EXPECT_TRUE(record["metrics"].empty());
  expect_valid(record);
}

TEST(Record, IntervalsNeedTenSamplesAndEnoughTicks) {
  CaseResult result;
  result.spec = spec_of("fixture/saxpy");
  result.verification.verdict = Verdict::pass;
  Series series;
  series.name = "in";
  series.samples = std::vector<double>(9, 1.0);
  result.metrics = {series};
  EXPECT_TRUE(record_json({.id = "0123456789"}, result)["metrics"][0]["within_job"].is_null());
  result.metrics[0].samples.push_back(1.0);
  EXPECT_FALSE(record_json({.id = "0123456789"}, result)["metrics"][0]["within_job"].is_null());
  result.metrics[0].coarse = true;
  EXPECT_TRUE(record_json({.id = "0123456789"}, result)["metrics"][0]["within_job"].is_null());
}

TEST(Limits, ShareIsBetterTheNearerOne) {
  Series rate;
  rate.better = Better::higher;
  rate.limit = Limit{100, "x"};
  EXPECT_DOUBLE_EQ(*share(rate, 86), 0.86);
  rate.better = Better::lower;
  EXPECT_DOUBLE_EQ(*share(rate, 200), 0.5);
  rate.limit.reset();
  EXPECT_FALSE(share(rate, 1));
}

/// Returns the record of own/readings with `what` as the kind of its samples.
json own(const std::string& what, const RunContext& c = context()) {
  auto record = record_of(spec_of("own/readings", {"what=" + what}), c);
  expect_valid(record);
  return record;
}
json metric(const json& record, const std::string& name) {
  for (const auto& metric : record["metrics"]) {
    if (metric["name"] == name) return metric;
  }
  return {};
}
bool warned(const json& record, const std::string& code) {
  const auto& warnings = record["warnings"];
  return std::any_of(warnings.begin(), warnings.end(), [&](const auto& w) { return w["code"] == code; });
}

TEST(OwnReadings, OneEventMayYieldSeveralMetrics) {
  const auto record = own("several");
  const auto there = metric(record, "there"), back = metric(record, "back");
  EXPECT_EQ(there["samples"].size(), back["samples"].size());
  EXPECT_GT(there["samples"].size(), 6u) << "the first was settled by then, the second not";
  EXPECT_EQ(there["stop"], "interval");
  EXPECT_EQ(there["limit_reason"], "the workload states none");
  EXPECT_EQ(back["limit_reason"], "this test knows none");
  EXPECT_NE(own("unequal")["error"].dump().find("there and back"), std::string::npos);
}

TEST(OwnReadings, AInvalidSampleDoesNotCount) {
  const auto record = own("invalid");
  const auto seconds = metric(record, "seconds");
  EXPECT_EQ(seconds["invalid"], json({1}));  // the workload invalidates its fourth value; the first two are warm-ups
  EXPECT_EQ(seconds["p95"], 1.0);
  EXPECT_EQ(seconds["samples"].size(), 7u) << "six that count settle it";
  const json late = {{"code", "late"}, {"message", "something came in between"}, {"samples", {1}}};
  EXPECT_NE(std::find(record["warnings"].begin(), record["warnings"].end(), late), record["warnings"].end());
}

TEST(OwnReadings, ShortOnesAreBatchedOrSaidToBeCoarse) {
  const auto batched = own("batched");
  EXPECT_EQ(metric(batched, "seconds")["batch"], 64);
  EXPECT_FALSE(warned(batched, "timer_coarse"));
  const auto coarse = own("coarse");
  EXPECT_TRUE(warned(coarse, "timer_coarse"));
  EXPECT_NE(coarse["warnings"].dump().find("there is shorter"), std::string::npos) << coarse["warnings"];
  EXPECT_EQ(coarse["warnings"].dump().find("seconds is shorter"), std::string::npos);
}

TEST(OwnReadings, GoOnForTheLeastTime) {
  auto c = context();
  const auto few = metric(own("one", c), "seconds")["samples"].size();
  c.sampling.least_time = 10e-3;
  const auto record = own("one", c);
  EXPECT_GT(metric(record, "seconds")["samples"].size(), few);
  EXPECT_EQ(metric(record, "seconds")["stop"], "interval");
  EXPECT_GE(record["run"]["wall"], 10e-3);
  c.sampling.samples = 3;
  EXPECT_EQ(metric(own("one", c), "seconds")["samples"].size(), 3u) << "a count that was asked for is given";
}

TEST(OwnReadings, AreFewerWhereTheyTakeLong) {
  auto c = context();
  const auto taken = [&c] { return metric(own("unsettled", c), "seconds"); };
  EXPECT_EQ(taken()["samples"].size(), 30u);
  c.sampling.long_sampling = 0;
  EXPECT_EQ(taken()["samples"].size(), 10u);
  EXPECT_EQ(taken()["stop"], "samples");
  c.sampling.samples = 12;
  EXPECT_EQ(taken()["samples"].size(), 12u) << "a count that was asked for is given";
  c.sampling.samples.reset();
  c.sampling.least_time = 1e-3;
  EXPECT_GE(taken()["samples"].size(), 30u) << "so is a time";
}

TEST(OwnReadings, WhatWasSeenIsASingleValue) {
  const auto pages = metric(own("one"), "pages");
  EXPECT_EQ(pages["samples"], json({12.0}));
  EXPECT_EQ(pages["stop"], "single");
  EXPECT_EQ(pages["timer"], "none");
}

TEST(OwnReadings, WhatACaseNeedsIsHeldAgainstWhatThereIs) {
  EXPECT_EQ(record_of(spec_of("own/readings", {"bytes=4096TiB"}))["skip_kind"], "memory");
  const auto found = footprint(spec_of("own/readings", {"bytes=3MiB"}), context());
  EXPECT_EQ(found.host_bytes, std::size_t{3} << 20);
  EXPECT_FALSE(found.skipped);
  EXPECT_TRUE(footprint(spec_of("own/readings", {"bytes=4096TiB"}), context()).skipped);
}

// --- budgets of cases --------------------------------------------------------------------------------

TEST(Budget, EndsBetweenTheInputsAndTheFirstSample) {
  auto c = context();
  c.sampling.budget = 0.1;
  const auto record = record_of(spec_of("own/readings", {"what=slow_inputs"}), c);
  EXPECT_EQ(record["skip_kind"], "budget");
  EXPECT_NE(record["skipped"].get<std::string>().find("the budget of 0.1 s ended after making the inputs"),
            std::string::npos)
      << record["skipped"];
  EXPECT_FALSE(is_settled(record)) << "--resume measures it with more seconds";
  c.sampling.budget = 30;
  EXPECT_TRUE(record_of(spec_of("own/readings", {"what=slow_inputs"}), c)["skipped"].is_null());
}

TEST(Budget, EndsWarmUps) {
  auto c = context();
  c.sampling.budget = 0.25;
  c.sampling.warmups = 100;
  c.sampling.samples = 100;
  const auto result = run_case(spec_of("own/readings", {"what=slow_samples"}), c);
  ASSERT_FALSE(result.skipped) << *result.skipped;
  const auto* seconds = result.find("seconds");
  ASSERT_NE(seconds, nullptr);
  EXPECT_EQ(seconds->samples.size(), 1u);
  EXPECT_EQ(seconds->stop, Stop::budget);
  EXPECT_LT(seconds->warmups, 4);
}

TEST(Budget, WhatCannotFitIsSkippedBeforeItBegins) {
  auto c = context();
  c.sampling.budget = 0.01;
  const auto large = spec_of("fixture/saxpy", {"n=67108864"});
  EXPECT_NE(footprint(large, c).skipped->find("the budget is 0.01 s; raise --budget"), std::string::npos);
  const auto result = run_case(large, c);
  ASSERT_TRUE(result.skipped && result.over_budget);
  EXPECT_LT(result.wall, 5) << "nothing of it was begun";
  c.sampling.budget = 600;
  EXPECT_FALSE(footprint(large, c).skipped);
}

TEST(Budget, EndsAKernelOfTheEmulator) {
  auto c = context();
  c.sampling.budget = 0.3;
  c.sampling.samples = 1;
  const auto record = record_of(spec_of("own/kernel", {"milliseconds=50000"}), c);
  EXPECT_TRUE(record["error"].is_null()) << record["error"];
  EXPECT_EQ(record["skip_kind"], "budget");
  EXPECT_NE(record["skipped"].get<std::string>().find("the budget of 0.3 s ended while a kernel"), std::string::npos)
      << record["skipped"];
  c.sampling.budget = 30;
  EXPECT_TRUE(record_of(spec_of("own/kernel"), c)["skipped"].is_null());
}

TEST(OwnReadings, ALatchThatIsAskedForAndNotWantedIsSaid) {
  auto c = context();
  EXPECT_FALSE(warned(own("unlatched", c), "no_latch"));
  c.sampling.latch = false;
  EXPECT_TRUE(warned(own("unlatched", c), "no_latch"));
  EXPECT_FALSE(warned(own("one", c), "no_latch"));
}

TEST(StolenTime, IsOneFieldOfManyOfAllProcessors) {
  const auto of = [](const std::string& text) {
    std::istringstream stat(text);
    return processor_time(stat);
  };
  const auto before = of("cpu  100 1 20 800 5 0 4 70 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  ASSERT_TRUE(before);
  EXPECT_EQ(before->stolen, 70);
  EXPECT_EQ(before->all, 1000) << "guests are part of user";
  EXPECT_DOUBLE_EQ(stolen_share(before, of("cpu 150 1 20 825 5 0 4 95 9 0")).value(), 0.25);
  EXPECT_DOUBLE_EQ(stolen_share(before, of("cpu 200 1 20 800 5 0 4 69 9 0")).value(), 0) << "it went back";
  EXPECT_FALSE(stolen_share(before, before)) << "no tick passed";
  EXPECT_FALSE(stolen_share(std::nullopt, before));
  EXPECT_FALSE(stolen_share(before, std::nullopt));
  EXPECT_FALSE(of(""));
  EXPECT_FALSE(of("cpu 1 2 3 4"));
  EXPECT_FALSE(of("intr 1 2 3 4 5 6 7 8"));
}

TEST(HostSpeed, IsProbedOnceAndInTheRecord) {
  const auto record = record_of(spec_of("fixture/saxpy"));
  expect_valid(record);
  const auto& speed = record["host"]["speed"];
  EXPECT_GT(speed["integer_rate"].get<double>(), 1e7);
  EXPECT_GT(speed["touch_rate"].get<double>(), 1e6);
  EXPECT_GT(speed["copy_rate"].get<double>(), 1e6);
  EXPECT_EQ(record_of(spec_of("fixture/saxpy"))["host"]["speed"], speed);
  EXPECT_TRUE(record["run"].contains("stolen_share"));
}

/// Fixture with a file of numbers for fixture/numbers.
class InputFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    setenv("ISTHMUS_FIXTURE_NUMBERS", path_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("ISTHMUS_FIXTURE_NUMBERS");
    std::filesystem::remove_all(folder_);
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  static json measured(const std::string& source = "source=file", const std::string& mode = "pm") {
    auto record = record_of(spec_of("fixture/numbers", {source}, mode));
    expect_valid(record);
    return record;
  }
  static std::string refusal(const std::string& path, std::size_t most_bytes = 1024) {
    try {
      const workload::InputFile file(path, most_bytes);
      return file.text();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  std::filesystem::path folder_ = temporary_path("input-files");
  std::filesystem::path path_ = folder_ / "numbers.bin";
};

TEST_F(InputFiles, HashingEndsWhenItIsToldTo) {
  write("abcdefgh");
  const workload::InputFile file(path_, 1024);
  EXPECT_THROW(file.sha256([] { return true; }), std::runtime_error);
  EXPECT_EQ(file.sha256([] { return false; }).size(), 64U);
}

TEST_F(InputFiles, AreInTheRecordAndKeepCasesApart) {
  write("abcdefgh");
  const auto first = measured();
  EXPECT_EQ(first["verify"]["status"], "pass") << first["error"];
  // Hash that sha256sum prints for the file.
  const std::string hash = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
  EXPECT_EQ(first["input_file"], json({{"name", "numbers.bin"}, {"bytes", 8}, {"sha256", hash}}));
  EXPECT_EQ(first["axes"]["input_file"], hash.substr(0, 12));
  EXPECT_EQ(case_identity(measured()), case_identity(first));

  write("abcdefgi");
  const auto second = measured();
  EXPECT_EQ(second["verify"]["status"], "pass") << "the list of another file is no input of this one";
  EXPECT_NE(second["axes"]["input_file"], first["axes"]["input_file"]);
  EXPECT_NE(second["verify"]["inputs"], first["verify"]["inputs"]);
  EXPECT_NE(case_identity(second), case_identity(first));
  const RunIdentity identity{.id = "0123456789", .command = {}, .process = 1, .seed = context().seed};
  const auto spec = spec_of("fixture/numbers", {"source=file"}, "pm");
  EXPECT_EQ(case_identity(identity, spec, context().device, 16), case_identity(second));

  const auto made = measured("source=made");
  EXPECT_FALSE(made.contains("input_file"));
  EXPECT_FALSE(made["axes"].contains("input_file"));
}

TEST_F(InputFiles, OfTwoPlacementsGiveTheSameResults) {
  write("abcdefgh");
  const auto one = measured(), other = measured("source=file", "baseline");
  EXPECT_EQ(one["verify"]["checksums"], other["verify"]["checksums"]);
  EXPECT_EQ(one["verify"]["inputs"], other["verify"]["inputs"]);
}

TEST_F(InputFiles, ThatAreNoneAreRefusedInASentence) {
  write("12345");
  EXPECT_EQ(refusal(path_, 5), "12345");
  EXPECT_EQ(refusal(path_, 4),
            "the file " + path_.string() + " cannot be read: it has 5 bytes, more than 4; name a smaller one");
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0666), 0);
  for (const auto& [path, why] : {std::pair<std::string, std::string>{fifo, "it is a FIFO; name a regular file"},
                                  {"/dev/zero", "it is a device; name a regular file"},
                                  {folder_, "it is a folder; name a regular file"},
                                  {folder_ / "none", "No such file or directory; name a file that can be read"}})
    EXPECT_EQ(refusal(path), "the file " + path + " cannot be read: " + why);
}

TEST_F(InputFiles, ThatCannotBeReadAreAnErrorOfTheirCase) {
  const auto gone = measured();
  EXPECT_NE(gone["error"].get<std::string>().find("No such file"), std::string::npos);
  EXPECT_FALSE(gone.contains("input_file"));
  unsetenv("ISTHMUS_FIXTURE_NUMBERS");
  EXPECT_EQ(measured()["skipped"],
            "source=file reads a file, but none is named; set ISTHMUS_FIXTURE_NUMBERS to a file of 32-bit numbers");
}

TEST_F(InputFiles, ThatBecomeShorterAreNoticed) {
  write(std::string(100, 'x'));
  const workload::InputFile file(path_, 1024);
  std::filesystem::resize_file(path_, 50);
  EXPECT_THROW(static_cast<void>(file.text()), std::runtime_error);
}

TEST_F(InputFiles, HaveTheirSizeInADryRun) {
  std::ofstream(path_) << "";
  std::filesystem::resize_file(path_, 1024);
  const auto found = footprint(spec_of("fixture/numbers", {"source=file"}, "pm"), context());
  EXPECT_FALSE(found.skipped) << *found.skipped;
  EXPECT_GE(found.host_bytes, 1024u);
}

class RecordFiles : public testing::Test {
 protected:
  void SetUp() override {
    path_ = temporary_path(testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string text() const {
    std::ifstream stream(path_);
    std::ostringstream all;
    all << stream.rdbuf();
    return all.str();
  }
  std::string path_;
};

TEST_F(RecordFiles, TakeBackHalfARecordAndLeaveWhatIsAnothers) {
  const auto c = context();
  const auto whole = record_json({.id = "0123456789", .command = {}, .process = 1, .seed = c.seed},
                                 run_case(spec_of("fixture/saxpy"), c))
                         .dump();
  const std::string before = whole + "\n", next = "{\"b\":2}";
  struct Tail {
    std::string left, kept;
  };
  // Tails of a file: a truncated record is dropped, a record without its line end gets one, and text of another program
  // is kept and is reported when the file is read.
  for (const auto& [left, kept] :
       {Tail{whole.substr(0, 1), ""}, Tail{whole.substr(0, 9), ""}, Tail{whole.substr(0, whole.size() - 1), ""},
        Tail{whole, whole + "\n"}, Tail{"notes", "notes\n"}, Tail{"{\"x\":", "{\"x\":\n"}}) {
    std::ofstream(path_) << before << left;
    RecordFile file(path_);
    EXPECT_EQ(broken_line(path_), kept == whole + "\n" ? 0u : 2u) << left;
    EXPECT_EQ(file.discard_half_record(), kept.empty() ? left.size() : 0u);
    EXPECT_EQ(text(), before + (kept.empty() ? "" : left));
    std::ofstream(path_) << before << left;
    file.append(next);
    EXPECT_EQ(text(), before + kept + next + "\n") << left;
  }
}

TEST_F(RecordFiles, TakeBackALineThatGoesThroughManyBlocks) {
  std::ofstream(path_) << "{}\n{\"axes\":" << std::string(200'000, ' ');
  EXPECT_EQ(RecordFile(path_).discard_half_record(), 200'008u);
  EXPECT_EQ(text(), "{}\n");
}

TEST_F(RecordFiles, AFileThatMayNotGrowKeepsNoHalfLine) {
  RecordFile file(path_);
  file.append("{\"a\":1}");
  const auto before = text();
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit tight{before.size() + 100, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  std::string said;
  try {
    file.append(R"({"axes":")" + std::string(200, 'x') + "\"}");
  } catch (const RecordLost& error) {
    said = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_NE(said.find("(File too large); its earlier contents are untouched; free some space"), std::string::npos)
      << said;
  EXPECT_EQ(text(), before);
}

TEST_F(RecordFiles, CheckingAPathLeavesNoFile) {
  check_record_path(path_);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THROW(check_record_path("/nowhere/at/all"), RecordError);
  EXPECT_THROW(check_record_path("/tmp"), RecordError);
}

TEST_F(RecordFiles, CheckingAPathLeavesALinkToWhatIsNotMadeYet) {
  const std::string link = path_ + ".link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  check_record_path(link);
  RecordFile(link).append("{}");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(text(), "{}\n");
  std::filesystem::remove(link);
}

// Each writer does what the program does: it checks the path, opens the file and appends a record.
TEST_F(RecordFiles, WritersOfOneNewFileLoseNothing) {
  constexpr int writers = 8, trials = 40;
  for (int trial = 0; trial < trials; ++trial) {
    std::filesystem::remove(path_);
    int start[2];  // pipe; closing it starts all writers at once
    ASSERT_EQ(pipe(start), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < writers; ++i) {
      children.push_back(fork());
      ASSERT_GE(children.back(), 0);
      if (children.back() != 0) continue;
      close(start[1]);
      char byte = 0;
      static_cast<void>(read(start[0], &byte, 1) + 1);
      check_record_path(path_);
      RecordFile(path_).append(R"({"axes":{},"writer":)" + std::to_string(i) + "}");
      _exit(0);
    }
    close(start[0]);
    close(start[1]);
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    std::set<int> found;
    for_each_record(path_, "", [&](const nlohmann::json& record) { found.insert(record.at("writer").get<int>()); });
    ASSERT_EQ(found.size(), std::size_t{writers}) << text();
  }
}

// --- record files that other programs change during a run -----------------------------------------

TEST_F(RecordFiles, AFileThatIsRemovedIsWrittenAgainWhole) {
  std::ofstream(path_) << "{\"axes\":0}\n";  // record of an earlier run
  RecordFile file(path_);
  file.append("{\"axes\":1}");
  std::filesystem::remove(path_);
  file.append("{\"axes\":2}");
  EXPECT_EQ(text(), "{\"axes\":0}\n{\"axes\":1}\n{\"axes\":2}\n");
  EXPECT_EQ(file.take_notices().size(), 1u);
  std::filesystem::remove(path_);
  file.settle();
  EXPECT_EQ(text(), "{\"axes\":0}\n{\"axes\":1}\n{\"axes\":2}\n");
  EXPECT_EQ(file.take_notices().size(), 1u);
  file.settle();
  EXPECT_TRUE(file.take_notices().empty());
}

TEST_F(RecordFiles, AFileWhoseFolderIsRemovedIsWrittenAgain) {
  const std::filesystem::path folder = path_ + ".folder";
  std::filesystem::create_directory(folder);
  RecordFile file((folder / "records.jsonl").string());
  file.append("{\"axes\":1}");
  std::filesystem::remove_all(folder);
  file.settle();
  EXPECT_TRUE(std::filesystem::exists(folder / "records.jsonl"));
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "in the way";
  std::string said;
  try {
    file.append("{\"axes\":2}");
  } catch (const RecordLost& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("1 of its records could not be kept"), std::string::npos) << said;
  std::filesystem::remove(folder);
}

TEST_F(RecordFiles, AFileThatIsMovedKeepsItsRecordsThere) {
  const std::string elsewhere = path_ + ".moved";
  RecordFile file(path_);
  file.append("{\"axes\":1}");
  std::filesystem::rename(path_, elsewhere);
  file.append("{\"axes\":2}");
  EXPECT_EQ(text(), "{\"axes\":2}\n");
  const auto notices = file.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("1 of its records are in " + elsewhere), std::string::npos) << notices[0];
  file.settle();
  EXPECT_TRUE(file.take_notices().empty());
  std::filesystem::remove(elsewhere);
  file.settle();
  EXPECT_EQ(text(), "{\"axes\":2}\n{\"axes\":1}\n");
}

TEST_F(RecordFiles, AFileThatIsCutOrReplacedIsMended) {
  RecordFile file(path_);
  file.append("{\"axes\":1}");
  file.append("{\"axes\":2}");
  std::filesystem::resize_file(path_, 13);  // inside the second line
  file.append("{\"axes\":3}");
  EXPECT_EQ(text(), "{\"axes\":1}\n{\"axes\":2}\n{\"axes\":3}\n");
  const std::string replacement = path_ + ".new";
  std::ofstream(replacement) << "{\"axes\":7}\n{\"axes\":2}\n";
  std::filesystem::rename(replacement, path_);
  file.settle();
  EXPECT_EQ(text(), "{\"axes\":7}\n{\"axes\":2}\n{\"axes\":1}\n{\"axes\":3}\n");
  EXPECT_EQ(file.take_notices().size(), 2u);
}

// --- lines that are not records ----------------------------------------------------------------------

TEST_F(RecordFiles, LinesThatAreNoRecordsAreReadOver) {
  const auto c = context();
  const auto record = record_json({.id = "0123456789", .command = {}, .process = 1, .seed = c.seed},
                                  run_case(spec_of("fixture/saxpy"), c));
  auto long_name = record, long_time = record;
  long_name["workload"] = "a/" + std::string(100'000, 'b');
  long_time["run"]["time"] = std::string(30'000, '1');
  const std::string deep(1'000'000, '['), objects = [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += "{\"axes\":";
    return text;
  }();
  {
    std::ofstream stream(path_);
    stream << long_name << '\n' << long_time << '\n' << deep << '\n' << objects << '\n';
    stream << "{\"axes\":" << deep << std::string(deep.size(), ']') << "}\n";
    stream << R"({"schema":"isthmus.record/2","workload":7,"axes":null})" << '\n';
    stream << std::string(kLongestLine + 1, ' ') << '\n' << record << '\n';
  }
  EXPECT_EQ(settled_cases(path_).size(), 1u);
  EXPECT_EQ(broken_line(path_), 3u);
  int valid = 0;
  for_each_valid_record(path_, "", [&](const nlohmann::json&) { ++valid; });
  EXPECT_EQ(valid, 1);
  std::ofstream(path_, std::ios::app) << "{\"axes\":" << deep;
  EXPECT_EQ(RecordFile(path_).discard_half_record(), std::string_view("{\"axes\":").size() + deep.size());
}

// A record with changed bytes is read as a record, as another record, or as an invalid line. Reading never fails.
TEST_F(RecordFiles, InvalidRecordsAreReadOver) {
  const auto c = context();
  const auto whole = record_json({.id = "0123456789", .command = {}, .process = 1, .seed = c.seed},
                                 run_case(spec_of("fixture/saxpy"), c))
                         .dump();
  std::mt19937 random(7);
  constexpr std::string_view bytes = "[]{}\",:0-e.\\x\0\xff\n";
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    std::string line = whole;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      line[random() % line.size()] = bytes[random() % bytes.size()];
    if (random() % 4 == 0) line.resize(random() % line.size());
    text += line + "\n";
  }
  std::ofstream(path_) << text;
  EXPECT_LE(settled_cases(path_).size(), 3000u);
  EXPECT_GT(broken_line(path_), 0u);
}

// An unreadable file must not be treated as empty, because --resume would measure everything again, and a table would
// be empty.
TEST_F(RecordFiles, AFileThatCannotBeReadIsNotTakenForAnEmptyOne) {
  const auto lines_of = [](const std::string& path) {
    int count = 0;
    for_each_line(path, [&](const FileLine&) { return ++count > 0; });
    return count;
  };
  EXPECT_EQ(lines_of(path_), 0) << "there is none";
  const std::string unreadable = "/proc/self/mem";  // regular file; reading its unmapped first byte fails with EIO
  EXPECT_THROW(lines_of(unreadable), RecordError);
  EXPECT_THROW(settled_cases(unreadable), RecordError);
  EXPECT_THROW(broken_line(unreadable), RecordError);
  try {
    check_record_path(unreadable);
    FAIL();
  } catch (const RecordError& error) {
    EXPECT_NE(std::string(error.what()).find("cannot be read (Input/output error)"), std::string::npos) << error.what();
  }
}

TEST(HostFacts, AGovernorIsThatOfAllProcessors) {
  const std::filesystem::path folder = temporary_path("cpu");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(governor_of(folder), std::nullopt);
  const auto file_of = [&](int cpu) { return folder / ("cpu" + std::to_string(cpu)) / "cpufreq" / "scaling_governor"; };
  for (int cpu = 0; cpu < 3; ++cpu) {
    std::filesystem::create_directories(file_of(cpu).parent_path());
    std::ofstream(file_of(cpu)) << "performance\n";
  }
  std::filesystem::create_directories(folder / "cpu3");  // like a processor that is offline
  std::filesystem::create_directories(folder / "cpufreq");
  EXPECT_EQ(governor_of(folder), "performance");
  std::ofstream(file_of(2)) << "powersave\n";
  EXPECT_EQ(governor_of(folder), "performance,powersave");
  std::filesystem::remove(file_of(1));
  std::filesystem::create_directory(file_of(1));  // a folder, so that reading it fails
  EXPECT_EQ(governor_of(folder), std::nullopt);
  std::filesystem::remove_all(folder);
}

TEST(Json, IsReadUpToADepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(read_json(nested(kDeepestJson)));
  EXPECT_FALSE(read_json(nested(kDeepestJson + 1)));
  EXPECT_TRUE(read_json("[\"" + std::string(200, '[') + "\\\"" + std::string(200, '{') + "\"]"));
  EXPECT_FALSE(read_json("[1,"));
}

TEST_F(RecordFiles, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  RecordFile full("/dev/full");
  EXPECT_THROW(full.append("{}"), RecordError);
}

TEST_F(RecordFiles, ResumeKnowsWhatIsSettled) {
  const auto c = context();
  const RunIdentity identity{.id = "0123456789", .command = {}, .process = 1, .seed = c.seed};
  const auto good = spec_of("fixture/saxpy"), wrong = spec_of("fixture/saxpy", {"fault=wrong"});
  {
    RecordFile file(path_);
    file.append(record_json(identity, run_case(good, c)).dump());
    file.append(record_json(identity, run_case(wrong, c)).dump());
    file.append("{\"no\": \"record\"}");
  }
  {
    std::ofstream(path_, std::ios::app) << "{\"cut";
  }
  const auto settled = settled_cases(path_);
  EXPECT_EQ(settled.size(), 1u);
  EXPECT_TRUE(settled.contains(case_identity(identity, good, c.device, 16)));
  EXPECT_FALSE(settled.contains(case_identity(identity, wrong, c.device, 16)));
  auto other = identity;
  other.seed = 43;
  EXPECT_FALSE(settled.contains(case_identity(other, good, c.device, 16)));
}

// Returns the identities of the cases that --resume would not measure again, according to a record file.
std::set<std::string> settled_by(const std::string& path) {
  std::set<std::string> identities;
  for (const auto& [identity, warnings] : settled_cases(path)) identities.insert(identity);
  return identities;
}

TEST_F(RecordFiles, ResumeKnowsRecordsOfThisVersionOnly) {
  const auto c = context();
  const RunIdentity identity{.id = "0123456789", .command = {}, .process = 1, .seed = c.seed};
  const auto spec = spec_of("fixture/saxpy");
  auto record = record_json(identity, run_case(spec, c));
  EXPECT_EQ(record["schema"], "isthmus.record/3");
  for (const json& other : {json("isthmus.record/2"), json("isthmus.record/4"), json(1), json(nullptr)}) {
    record["schema"] = other;
    std::ofstream(path_) << record << '\n';
    EXPECT_TRUE(settled_by(path_).empty()) << other;
  }
}

}  // namespace
}  // namespace isthmus::harness
