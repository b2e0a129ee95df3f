// Tests of the requests that --oversubscribe must refuse, of their error messages, and of footprints. They run nothing
// on a device.

#include "harness/program/oversubscribe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "harness/plan/plan.hpp"
#include "harness/plan/workloads.hpp"

namespace isthmus::harness {
namespace {

constexpr std::size_t kMi = 1 << 20, kGi = 1 << 30;

/// Returns the message of the InputError that `asked` throws, or "" if it does not throw one.
std::string refusal(const std::function<void()>& asked) {
  try {
    asked();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

TEST(Oversubscribe, ARatioIsANumberAboveOneAndAtMostFour) {
  EXPECT_EQ(parse_ratio("1.25"), 1.25);
  EXPECT_EQ(parse_ratio("4"), 4);
  for (const char* text : {"", "much", "1.25x", "nan", "inf"})
    EXPECT_TRUE(has(refusal([&] { parse_ratio(text); }), "takes a ratio such as 1.25, not '")) << text;
  for (const char* text : {"1", "0.5", "0", "-2", "4.01", "1e9"})
    EXPECT_TRUE(has(refusal([&] { parse_ratio(text); }), "out of range: it must be above 1")) << text;
}

class Asked : public testing::Test {
 protected:
  Asked() {
    asked.ratio = 1.25;
    asked.allowed = true;
    request.patterns = {"fixture/beyond"};
  }
  std::string refused(int processes = 1, int ranks = 1) {
    const auto parsed = parse_request(request);
    return refusal([&] { check_oversubscription(asked, parsed, plan(parsed), processes, ranks); });
  }
  Oversubscription asked;
  RequestTexts request;
};

TEST_F(Asked, WhatIsAllowedIsNotRefused) {
  EXPECT_EQ(refused(), "");
}

TEST_F(Asked, WithoutTheOperatorsWordItIsRefusedAndSaysWhy) {
  asked.allowed = false;
  const auto sentence = refused();
  for (const char* part : {"can hang the GPU", "if nobody else uses this host", "--allow-oversubscription"})
    EXPECT_TRUE(has(sentence, part)) << sentence;
}

TEST_F(Asked, WordsThatGoWithItMeanNothingAlone) {
  asked.ratio.reset();
  EXPECT_TRUE(has(refused(), "--allow-oversubscription has no effect"));
  asked.allowed = false;
  EXPECT_EQ(refused(), "");
  asked.hang_after = 3;
  EXPECT_TRUE(has(refused(), "--hang-after has no effect"));
}

TEST_F(Asked, ALimitThatEndsAnyRunIsRefused) {
  asked.hang_after = 0.5;
  EXPECT_TRUE(has(refused(), "--hang-after 0.5 would end any run"));
}

TEST_F(Asked, SeveralRanksOrProcessesAreRefused) {
  EXPECT_TRUE(has(refused(1, 2), "2 ranks were started"));
  EXPECT_TRUE(has(refused(3), "omit --processes"));
}

TEST_F(Asked, OtherWorkloadsAreRefusedByName) {
  request.patterns = {"fixture/saxpy"};
  EXPECT_TRUE(has(refused(), "fixture/saxpy does not support --oversubscribe; choose from fixture/beyond"));
  request.patterns = {"fixture/beyond", "fixture/saxpy"};
  EXPECT_TRUE(has(refused(), "fixture/saxpy does not support --oversubscribe"));
}

TEST_F(Asked, MemoryThatIsNotManagedIsRefused) {
  request.settings = {"memory=managed"};
  EXPECT_EQ(refused(), "");
  request.settings = {"memory=managed,pageable"};
  EXPECT_TRUE(has(refused(), "has memory=pageable; set memory=managed"));
}

TEST_F(Asked, NobodyElseSaysHowManyBytes) {
  request.sizes = {"tiny"};
  EXPECT_TRUE(has(refused(), "omit --size"));
  request.sizes.clear();
  request.settings = {"bytes=4MiB"};
  EXPECT_TRUE(has(refused(), "omit --size"));
  request.settings = {"what=well"};
  EXPECT_EQ(refused(), "");
  request = {.patterns = {"fixture/saxpy"}, .preset = "fixture-fig1"};
  EXPECT_TRUE(has(refused(), "preset fixture-fig1 both set the bytes"));
}

DeviceState quiet_gpu() {
  return {device::Backend::cuda, "580.159.04", {.processes = std::vector<unsigned>{}, .mig = false}};
}

TEST(OversubscribeDevice, AQuietOneOfAnExaminedDriverIsNotRefused) {
  EXPECT_EQ(refused_on(quiet_gpu()), "");
}

TEST(OversubscribeDevice, OneThatOthersUseIsRefused) {
  auto gpu = quiet_gpu();
  gpu.occupancy.processes = {4711, 12};
  EXPECT_TRUE(has(refused_on(gpu), "other processes use the GPU (4711, 12)")) << refused_on(gpu);
  gpu.occupancy.processes.reset();
  EXPECT_TRUE(has(refused_on(gpu), "NVML does not report who uses the GPU"));
}

TEST(OversubscribeDevice, OneThatIsSplitIsRefused) {
  auto gpu = quiet_gpu();
  gpu.occupancy.mig = true;
  EXPECT_TRUE(has(refused_on(gpu), "in MIG mode"));
  gpu.occupancy.mig.reset();
  EXPECT_TRUE(has(refused_on(gpu), "does not report whether the GPU is split"));
}

TEST(OversubscribeDevice, EachRefusedDriverHasItsReason) {
  auto gpu = quiet_gpu();
  bool has_595 = false;
  for (const auto& [branch, reason] : refused_drivers()) {
    gpu.driver = std::to_string(branch) + ".10.01";
    EXPECT_TRUE(has(refused_on(gpu), "refused on driver branch " + std::to_string(branch) + ": " + reason));
    has_595 |= branch == 595 && has(reason, "deadlock") && has(reason, "1223");
  }
  EXPECT_TRUE(has_595);
  gpu.driver = "700.1";
  EXPECT_TRUE(has(refused_on(gpu), "branch 700, which has not been checked"));
  gpu.driver = "CUDA 13.0";
  EXPECT_TRUE(has(refused_on(gpu), "the driver does not report its version ('CUDA 13.0')"));
}

TEST(OversubscribeDevice, OthersGpusAreRefusedAndAnEmulatedOneHasNoDriver) {
  auto gpu = quiet_gpu();
  gpu.backend = device::Backend::hip;
  EXPECT_TRUE(has(refused_on(gpu), "is for NVIDIA GPUs"));
  gpu.backend = device::Backend::emulator;
  gpu.driver = "none";
  EXPECT_EQ(refused_on(gpu), "");
  gpu.occupancy.processes = {1};
  EXPECT_TRUE(has(refused_on(gpu), "other processes use the GPU (1)"));
}

class Footprints : public testing::Test {
 protected:
  void plan_with(std::vector<std::string> settings) {
    RequestTexts request;
    request.patterns = {"fixture/beyond"};
    request.settings = std::move(settings);
    cases = plan(parse_request(request));
  }
  std::string refused(double ratio, std::size_t free, std::optional<std::size_t> available) {
    return refusal([&] { set_footprints(cases, ratio, free, available); });
  }
  std::vector<CaseSpec> cases;
};

TEST_F(Footprints, AreTheRatioTimesWhatIsFreeInWholeBlocks) {
  plan_with({"what=well,slow"});
  EXPECT_EQ(refused(1.25, 100 * kMi + 1, 100 * kGi), "");
  for (const auto& spec : cases) {
    EXPECT_EQ(spec.integer("bytes"), static_cast<std::int64_t>(126 * kMi));
    EXPECT_EQ(spec.size, std::nullopt) << "no named size has so many bytes";
    EXPECT_EQ(spec.oversubscribed, "1.25 times the 104857601 bytes that were free on the device");
    EXPECT_TRUE(has(spec.label(), "oversubscribed"));
  }
  EXPECT_EQ(cases.size(), 2u);
  EXPECT_EQ(oversubscribed_bytes(1.5, 4 * kMi), 6 * kMi) << "no block more than needed";
}

TEST_F(Footprints, OfMoreThanTheHostHasAreRefused) {
  plan_with({});
  // 1.25 × 8 GiB are 10 GiB. The host must have a tenth more and another 2 GiB, 13 GiB in total.
  EXPECT_TRUE(has(refused(1.25, 8 * kGi, 13 * kGi - 10 * kMi), "13 GiB of host memory")) << refused(1.25, 8 * kGi, 0);
  EXPECT_EQ(refused(1.25, 8 * kGi, 13 * kGi + 10 * kMi), "");
  EXPECT_TRUE(has(refused(1.25, 8 * kGi, std::nullopt), "the amount of available host memory"));
}

TEST_F(Footprints, OfMorePiecesThanTheDriverKeepsAreRefused) {
  plan_with({"driver_prefetch=off"});
  EXPECT_EQ(refused(1.25, kGi, 100 * kGi), "");
  EXPECT_TRUE(has(refused(1.25, 2 * kGi, 100 * kGi), "driver_prefetch=off supports at most 2 GiB of managed memory"))
      << refused(1.25, 2 * kGi, 100 * kGi);
}

TEST(OversubscribeLimit, GrowsWithTheFootprint) {
  EXPECT_EQ(hang_limit(0), 120);
  EXPECT_EQ(hang_limit(100 * kGi), 2120);
}

}  // namespace
}  // namespace isthmus::harness
