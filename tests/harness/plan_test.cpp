#include "harness/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/registry.hpp"

namespace isthmus::harness {
namespace {

std::string refusal(const Request& request) {
  try {
    plan(request);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Request of(std::string pattern) {
  return {.patterns = {std::move(pattern)}};
}

TEST(Plan, DefaultIsTheBaselineAtSmall) {
  const auto cases = plan(of("fixture/saxpy"));
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].placement, memory::Placement::pageable);
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
  EXPECT_EQ(cases[0].placement, memory::Placement::pinned);
  EXPECT_EQ(cases[1].placement, memory::Placement::managed_in);
  for (const auto& mode : all_modes()) EXPECT_EQ(find_mode(mode.placement, mode.staging), &mode);
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
  ASSERT_EQ(cases.size(), 4u);  // two modes, two values of the sweep; workloads without the preset are left out
  EXPECT_EQ(*cases[0].find("n"), AxisValue(std::int64_t{2048}));
  EXPECT_EQ(*cases[1].find("threads"), AxisValue(std::int64_t{128}));
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

}  // namespace
}  // namespace isthmus::harness
