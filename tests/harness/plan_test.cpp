#include "harness/plan/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/measure/inputs/inputs.hpp"
#include "harness/plan/modes.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::harness {
namespace {

std::vector<CaseSpec> plan(const RequestTexts& texts) {
  return harness::plan(parse_request(texts));
}

std::string refusal(const RequestTexts& request) {
  try {
    plan(request);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

RequestTexts of(std::string pattern) {
  return {.patterns = {std::move(pattern)}};
}

TEST(Plan, DefaultIsTheBaselineAtSmall) {
  const auto cases = plan(of("fixture/saxpy"));
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].placement, memory::parse_placement("pageable"));
  EXPECT_EQ(cases[0].staging, Staging::direct);
  EXPECT_EQ(cases[0].size, "small");
  EXPECT_EQ(*cases[0].find("n"), AxisValue(std::int64_t{65536}));
  EXPECT_EQ(*cases[0].find("threads"), AxisValue(std::int64_t{64}));
}

TEST(Plan, ModesAreAliasesOfTheProduct) {
  auto request = of("fixture/saxpy");
  request.modes = {"pm", "uvm"};
  request.sizes = {"tiny"};
  const auto cases = plan(request);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].placement, memory::parse_placement("pinned"));
  EXPECT_EQ(cases[1].placement, memory::parse_placement("managed_in"));
  for (const auto& mode : all_modes())
    EXPECT_EQ(find_mode(*memory::parse_placement(mode.placement), mode.staging), &mode);
}

TEST(Plan, AllIsTheWorkloadsOwnProductWithoutRepeats) {
  auto request = of("fixture/saxpy");
  request.placements = {"all", "pinned"};
  request.stagings = {"all"};
  request.sizes = {"all"};
  std::set<std::string> labels;
  for (const auto& spec : plan(request)) {
    EXPECT_FALSE(spec.not_applicable);
    EXPECT_TRUE(labels.insert(spec.label()).second) << spec.label();
  }
  EXPECT_EQ(labels.size(), 11u * 2 * 3);
}

// Every workload with a managed placement has the axis `driver_prefetch`; a case has it only if it is not the default.
TEST(Plan, TheDriversPrefetcherIsAnAxisOfManagedPlacements) {
  auto request = of("fixture/saxpy");
  request.placements = {"managed_demand", "pinned"};
  request.sizes = {"tiny"};
  const auto as_ever = plan(request);
  request.settings = {"driver_prefetch=default,off"};
  const auto cases = plan(request);
  ASSERT_EQ(cases.size(), 4u);
  for (const auto& spec : cases) {
    const auto* value = spec.find("driver_prefetch");
    const bool off = value != nullptr && *value == AxisValue("off");
    EXPECT_EQ(off, value != nullptr);
    EXPECT_EQ(spec.not_applicable.has_value(), off && spec.placement == memory::parse_placement("pinned"));
    EXPECT_NE(spec.label().find(off ? "driver_prefetch=off" : "driver_prefetch=default"), std::string::npos)
        << spec.label();
    EXPECT_EQ(inputs_name(spec, 1), inputs_name(as_ever[0], 1)) << "it says how, so the results are the same";
  }
  EXPECT_EQ(cases[0].axes, as_ever[0].axes);

  EXPECT_NE(refusal({.patterns = {"fixture/saxpy"}, .settings = {"driver_prefetch=of"}}).find("off"),
            std::string::npos);
  EXPECT_NE(refusal({.patterns = {"fixture/host_loop"}, .settings = {"driver_prefetch=off"}}).find("no axis"),
            std::string::npos);
}

TEST(Plan, WhatWasNamedAndIsMissingIsSkippedNotDropped) {
  auto request = of("fixture/saxpy");
  request.stagings = {"bulk"};
  auto cases = plan(request);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_TRUE(cases[0].not_applicable);
  request = of("fixture/saxpy");
  request.sizes = {"large"};
  cases = plan(request);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_TRUE(cases[0].not_applicable);
}

TEST(Plan, WorkloadsWithoutPlacementsRunOnceWhateverTheMode) {
  auto request = of("fixture/host_loop");
  request.modes = {"all"};
  const auto cases = plan(request);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_FALSE(cases[0].placement);
  EXPECT_FALSE(cases[0].size);
}

TEST(Plan, AShapeOfOnesOwnLosesTheSizesName) {
  auto request = of("fixture/saxpy");
  request.sizes = {"tiny"};
  request.settings = {"threads=128"};
  EXPECT_EQ(plan(request)[0].size, "tiny");
  request.settings = {"n=5000"};
  EXPECT_FALSE(plan(request)[0].size);
  request.settings = {"n=4096"};
  EXPECT_EQ(plan(request)[0].size, "tiny");
}

TEST(Plan, PresetsSweepAndBringTheirModes) {
  auto request = of("fixture/*");
  request.preset = "fixture-fig1";
  const auto cases = plan(request);
  ASSERT_EQ(cases.size(), 4u);  // two modes × two values of the sweep; workloads without the preset are left out
  EXPECT_EQ(*cases[0].find("n"), AxisValue(std::int64_t{2048}));
  EXPECT_EQ(*cases[1].find("threads"), *cases[0].find("threads")) << "cases with the same inputs follow one another";
  EXPECT_NE(std::pair(cases[1].placement, cases[1].staging), std::pair(cases[0].placement, cases[0].staging));
  EXPECT_EQ(*cases[2].find("threads"), AxisValue(std::int64_t{128}));
  EXPECT_EQ(cases[0].preset, "fixture-fig1");
}

TEST(Plan, RefusalsSayWhatToDo) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
  };
  contains(refusal(of("fixture/saxpi")), "did you mean 'fixture/saxpy'?");
  auto request = of("fixture/saxpy");
  request.modes = {"umv"};
  contains(refusal(request), "did you mean 'uvm'?");
  request = of("fixture/saxpy");
  request.placements = {"pined"};
  contains(refusal(request), "did you mean 'pinned'?");
  request = of("fixture/saxpy");
  request.stagings = {"blk"};
  contains(refusal(request), "did you mean 'bulk'?");
  request = of("fixture/saxpy");
  request.sizes = {"tny"};
  contains(refusal(request), "did you mean 'tiny'?");
  request = of("fixture/saxpy");
  request.preset = "fixture-fig2";
  contains(refusal(request), "did you mean 'fixture-fig1'?");
  request = of("fixture/saxpy");
  request.settings = {"thread=64"};
  contains(refusal(request), "did you mean 'threads'?");
  request.settings = {"threads=63"};
  contains(refusal(request), "choose one of 32, 64, 128");
  request.settings = {"n=many"};
  contains(refusal(request), "not an integer");
  request.settings = {"n=1.5"};
  contains(refusal(request), "not an integer");
  request.settings = {"n=99999999999999999999"};
  contains(refusal(request), "out of range");
  request.settings = {"n=0"};
  contains(refusal(request), "at least 1");
  request.settings = {"n"};
  contains(refusal(request), "axis=value");
  request.settings = {"n=1", "n=2"};
  contains(refusal(request), "set twice");
  request = of("fixture/saxpy");
  request.modes = {"pm"};
  request.placements = {"pinned"};
  contains(refusal(request), "--mode");
}

TEST(Plan, SaysWhichWorkloadsHaveNoneOfAllModes) {
  auto request = of("fixture/saxpy");
  request.patterns.push_back("fixture/st*");  // matches fixture/steps, whose only staging no mode uses
  request.modes = {"all"};
  const auto notices = parse_request(request).notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("no case of 1 of 3 workloads, such as fixture/steps"), std::string::npos) << notices[0];
  request.patterns.push_back("fixture/steps");
  EXPECT_NE(refusal(request).find("no case of fixture/steps"), std::string::npos) << "it was asked for by its name";
}

/// Returns each case's value of an axis.
std::vector<std::int64_t> values(const std::vector<CaseSpec>& cases, std::string_view axis) {
  std::vector<std::int64_t> list;
  for (const auto& spec : cases) list.push_back(spec.integer(axis));
  return list;
}
using Values = std::vector<std::int64_t>;

TEST(Lists, EachValueIsACaseAndListsMultiply) {
  auto request = of("fixture/saxpy");
  request.settings = {"threads=32,128", "n=1000,2000"};
  const auto cases = plan(request);
  EXPECT_EQ(values(cases, "n"), (Values{1000, 1000, 2000, 2000}));
  EXPECT_EQ(values(cases, "threads"), (Values{32, 128, 32, 128}));
  EXPECT_EQ(cases[1].label(), "fixture/saxpy pageable×direct n=1000 threads=128");
  EXPECT_FALSE(cases[1].size);
  request.settings = {"threads=all"};
  EXPECT_EQ(values(plan(request), "threads"), (Values{32, 64, 128}));
  EXPECT_EQ(plan(request)[0].size, "small");
  request.settings = {"threads=32"};
  EXPECT_EQ(plan(request)[0].label(), "fixture/saxpy pageable×direct small") << "one value tells nothing apart";
}

TEST(Lists, BytesMayBeWrittenWithUnits) {
  auto request = of("moves/gpu0-gpu0/ce");
  request.settings = {"bytes=512,4KiB,1.5MiB"};
  const auto cases = plan(request);
  EXPECT_EQ(values(cases, "bytes"), (Values{512, 4096, 3 << 19}));
  EXPECT_EQ(cases[1].label(), "moves/gpu0-gpu0/ce bytes=4096");
}

TEST(Lists, UsualValuesRunUnlessTheUserNamesOthers) {
  auto request = of("moves/gpu0-gpu0/ce");
  EXPECT_EQ(values(plan(request), "bytes"), (Values{4096, 65536}));
  request.sizes = {"small"};
  EXPECT_EQ(values(plan(request), "bytes"), (Values{16384}));
  request.sizes.clear();
  request.settings = {"streams=2"};
  EXPECT_EQ(values(plan(request), "bytes"), (Values{4096, 65536}));
  request.settings = {"bytes=7"};
  EXPECT_EQ(values(plan(request), "bytes"), (Values{7}));
  request.settings = {"bytes=all"};
  EXPECT_EQ(values(plan(request), "bytes"), (Values{4096, 65536, 1 << 20}));
  request.settings = {"bytes=4096", "node=all"};
  EXPECT_EQ(values(plan(request), "node"), (Values{0, 1}));
}

TEST(Lists, ASizeSweepRunsTheListsThatThereAre) {
  auto request = of("moves/*0-*");
  request.size_sweep = true;
  request.patterns.emplace_back("fixture/host_loop");
  const auto cases = plan(request);
  const auto count = [&](std::string_view name) {
    return std::count_if(cases.begin(), cases.end(), [&](const auto& spec) { return spec.workload->name() == name; });
  };
  EXPECT_EQ(count("moves/gpu0-gpu0/ce"), 3);
  EXPECT_EQ(count("fixture/host_loop"), 1);
  request.sizes = {"tiny"};
  EXPECT_NE(refusal(request).find("--size-sweep and --size"), std::string::npos);
  request = of("moves/*");
  request.size_sweep = true;
  request.settings = {"bytes=4096"};
  EXPECT_NE(refusal(request).find("--size-sweep and --set"), std::string::npos);
  request.settings.clear();
  request.preset = "fixture-fig1";
  EXPECT_NE(refusal(request).find("--size-sweep and --preset"), std::string::npos);
  request = of("fixture/*");
  request.size_sweep = true;
  EXPECT_NE(refusal(request).find("none of the selected workloads"), std::string::npos);
}

TEST(Lists, CasesThatASettingMakesEqualRunOnce) {
  auto request = of("fixture/saxpy");
  request.sizes = {"tiny", "small", "mega"};
  request.settings = {"n=5000,6000"};
  EXPECT_EQ(values(plan(request), "n"), (Values{5000, 6000}));
}

TEST(Lists, MoreCasesThanARunMayHaveAreRefused) {
  const auto counted = [](std::string setting, int last) {
    for (int value = 1; value < last; ++value) setting += std::to_string(value) + ",";
    return setting + std::to_string(last);
  };
  auto request = of("moves/gpu0-gpu0/ce");
  request.settings = {counted("bytes=", 1000), counted("node=", 100)};
  EXPECT_NO_THROW(parse_request(request));
  request.settings = {counted("bytes=", 1001), counted("node=", 100)};
  EXPECT_NE(refusal(request).find("has 100100 cases, and a run has at most 100000; list fewer"), std::string::npos);
}

TEST(Lists, AGlobMayTakeInWorkloadsWithoutTheAxisANameMayNot) {
  auto request = of("moves/*");
  request.settings = {"streams=2"};
  const auto parsed = parse_request(request);
  const auto& notices = parsed.notices;
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("axis streams"), std::string::npos);
  for (const auto& spec : harness::plan(parsed)) {
    const auto* streams = spec.find("streams");
    EXPECT_TRUE(streams == nullptr || *streams == AxisValue(std::int64_t{2})) << spec.label();
  }
  request.patterns = {"moves/gpu*", "moves/node0-all/cpu"};
  EXPECT_NE(refusal(request).find("there is no axis 'streams' in moves/node0-all/cpu"), std::string::npos);
  request = of("*");
  request.settings = {"stream=2"};
  EXPECT_NE(refusal(request).find("in any of the selected workloads; did you mean 'streams'?"), std::string::npos);
}

TEST(Lists, RefusalsSayWhatToDo) {
  const auto refused = [](std::string setting, const std::string& part, std::string pattern = "moves/gpu0-gpu0/ce") {
    auto request = of(std::move(pattern));
    request.settings = {std::move(setting)};
    EXPECT_NE(refusal(request).find(part), std::string::npos) << refusal(request);
  };
  refused("bytes=4096,4KiB", "listed twice");
  refused("bytes=4096,,1", "empty value");
  refused("bytes=4096,", "empty value");
  refused("bytes=1.5", "not a number of bytes");
  refused("bytes=4KB", "not a number of bytes");
  refused("bytes=0.1B", "at least 1");
  refused("bytes=all,4096", "not a number of bytes");
  refused("streams=1,3", "choose one of 1, 2");
  refused("n=all", "'all' has no meaning", "fixture/saxpy");
  // Two axes in one setting, separated by a comma, or by a space in a quoted argument.
  refused("bytes=4KiB,streams=2", "; pass each setting separately, as --set bytes=… --set streams=2");
  refused("bytes=4KiB streams=2", "; pass each setting separately, as --set bytes=… --set streams=2");
  refused("streams=2,bytes=4KiB", "'bytes=4KiB' is not an integer");
  refused("streams=2,bytes=4KiB", "; pass each setting separately, as --set streams=… --set bytes=4KiB");
}

TEST(Family, IsExpandedForThisMachineAndForWhatAPatternNames) {
  const auto names = [](std::string_view pattern) {
    std::vector<std::string> list;
    for (const auto* workload : find_workloads(pattern)) list.push_back(workload->name());
    return list;
  };
  const auto gpus = static_cast<std::size_t>(std::max(1, device::count()));
  EXPECT_EQ(names("moves/gpu*").size(), gpus * gpus);
  EXPECT_EQ(names("moves/gpu40-gpu41/ce"), std::vector<std::string>{"moves/gpu40-gpu41/ce"});
  EXPECT_EQ(names("moves/gpu*").size(), gpus * gpus) << "a name that was asked for must not stay in globs";
  EXPECT_EQ(names("moves/node63-all/cpu"), std::vector<std::string>{"moves/node63-all/cpu"});
  EXPECT_TRUE(names("moves/gpu64-gpu0/ce").empty()) << "nobody has so many";
  EXPECT_TRUE(names("moves/gpu99999999999-gpu0/ce").empty());
  EXPECT_EQ(machine_for("moves/gpu7-gpu2/ce").gpus, 8);
  const auto nodes = machine_for("moves/node62-node61/cpu").memory_nodes;
  EXPECT_TRUE(std::is_sorted(nodes.begin(), nodes.end()));
  EXPECT_EQ(nodes.back(), 62);
}

TEST(Family, PointersStayAndANameIsOneWorkload) {
  const auto* before = find_workloads("moves/gpu0-gpu0/ce").front();
  find_workloads("moves/gpu20-*");
  EXPECT_EQ(find_workloads("moves/gpu0-gpu0/ce").front(), before);
  EXPECT_EQ(family_of(*before), "moves/");
  EXPECT_EQ(family_of(*find_workloads("fixture/saxpy").front()), "");
  EXPECT_EQ(select_workloads({"moves/gpu0-gpu0/ce", "moves/gpu0*", "moves/gpu5-gpu0/ce"}).front(), before);
  const auto selected = select_workloads({"moves/gpu5-gpu0/ce", "*", "moves/gpu5-gpu0/ce"});
  EXPECT_EQ(std::set<const Workload*>(selected.begin(), selected.end()).size(), selected.size());
}

TEST(Family, MisspeltNamesAreSuggestedFromTheExpansion) {
  EXPECT_NE(refusal(of("moves/gpu3-gpu2/cee")).find("did you mean 'moves/gpu3-gpu2/ce'?"), std::string::npos);
  EXPECT_NE(refusal(of("move/gpu0-gpu0/ce")).find("did you mean 'moves/gpu0-gpu0/ce'?"), std::string::npos);
}

TEST(Family, WrongOnesAreRefused) {
  EXPECT_THROW(Family("noslash", nullptr), std::logic_error);
  EXPECT_THROW(Family("moves/", nullptr), std::logic_error);
}

TEST(Registry, SizesAndPresetsOfEveryWorkloadFitItsAxes) {
  for (const auto* workload : all_workloads()) {
    const auto& description = workload->description();
    EXPECT_FALSE(description.summary.empty()) << workload->name();
    for (const auto& size : description.sizes) {
      auto request = of(workload->name());
      request.sizes = {size.name};
      EXPECT_EQ(refusal(request), "");
    }
    for (const auto& preset : description.presets) {
      auto request = of(workload->name());
      request.preset = preset.name;
      EXPECT_EQ(refusal(request), "");
    }
  }
}

TEST(Registration, ASizeThatIsThereAlreadySetsMore) {
  const auto workload = Workload("a/b", [](Case&) {})
                            .axis(number_axis("n", "elements", 4))
                            .axis(number_axis("m", "others", 4))
                            .sizes({"n"}, {1, 2})
                            .size("tiny", {{"m", 3}});
  const auto& sizes = workload.description().sizes;
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0].name, "tiny");
  EXPECT_EQ(sizes[0].settings, (AxisSettings{{"n", 1}, {"m", 3}}));
  EXPECT_EQ(sizes[1].settings, (AxisSettings{{"n", 2}}));
}

TEST(Registration, WhatWouldBreakEveryRecordIsRefused) {
  const auto problem = [](const Workload& workload) -> std::string {
    try {
      workload::check_registration(workload);
      check_modes(workload);
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return {};
  };
  const auto make = [](const std::string& name) {
    return Workload(name, [](Case&) {}).axis(number_axis("n", "elements", 4)).metrics({"time"});
  };
  EXPECT_EQ(problem(make("a/b").size("tiny", {{"n", 8}}).reported({"pages"})), "");
  EXPECT_NE(problem(make("A/b")).find("lower case"), std::string::npos);
  EXPECT_NE(problem(make("alone")).find("family/name"), std::string::npos);
  EXPECT_NE(problem(make("a/b").metrics({"Time"})).find("metric 'Time'"), std::string::npos);
  EXPECT_NE(problem(make("a/b").reported({"time"})).find("metric time twice"), std::string::npos);
  EXPECT_NE(problem(make("a/b").axis(number_axis("N", "", 1))).find("axis 'N'"), std::string::npos);
  EXPECT_NE(problem(make("a/b").axis(number_axis("n", "", 1))).find("axis n twice"), std::string::npos);
  EXPECT_NE(problem(make("a/b").size("tiny", {{"m", 8}})).find("sets axis m, which is not declared"),
            std::string::npos);
  EXPECT_NE(problem(make("a/b").size("tiny", {{"n", 8}}).size("tiny", {{"n", 9}})).find("sets axis n twice"),
            std::string::npos);
  EXPECT_NE(problem(make("a/b").size("tiny", {{"n", 0}})).find("sets axis n to 0"), std::string::npos);
  EXPECT_NE(problem(make("a/b").preset({.name = "p", .sizes = {"tiny"}})).find("of size tiny, which does not exist"),
            std::string::npos);
  EXPECT_EQ(problem(make("a/b").preset({.name = "p", .modes = {"pm"}})), "");
  EXPECT_NE(problem(make("a/b").preset({.name = "p", .modes = {"pn"}})).find("of mode pn, which does not exist"),
            std::string::npos);
  const auto source = choice_axis("source", "where from", {"made", "file"});
  const auto reads = [&](const std::string& axis) { return make("a/b").with_file(axis, "A_FILE", "a file", 1); };
  EXPECT_EQ(problem(reads("source").axis(source)), "");
  EXPECT_NE(problem(reads("source").axis(how(source))).find("determines how the work is done"), std::string::npos);
  EXPECT_NE(problem(reads("n")).find("axis n is file, which is not one of its values"), std::string::npos);
  EXPECT_NE(problem(reads("source")).find("axis source is file"), std::string::npos);
  EXPECT_NE(
      problem(reads("source").axis(source).axis(number_axis("input_file", "", 1))).find("declares axis input_file"),
      std::string::npos);
  const auto data = choice_axis("data", "where from", {"generated", "written"});
  EXPECT_EQ(problem(make("a/b").axis(data).file_phase("data")), "");
  for (const auto& wrong : {make("a/b").axis(how(data)).file_phase("data"), make("a/b").file_phase("data"),
                            make("a/b").axis(source).file_phase("source")})
    EXPECT_NE(problem(wrong).find("which must have the values generated and written"), std::string::npos);
}

}  // namespace
}  // namespace isthmus::harness
