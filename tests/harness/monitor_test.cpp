// Tests of the warnings that follow from a device's state before and after a case.

#include "harness/measure/watch/monitor.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace isthmus::harness {
namespace {

std::vector<std::string> codes(const device::Telemetry& before, const device::Telemetry& after) {
  CaseResult result;
  warn_about_state(result, before, after);
  std::vector<std::string> found;
  for (const auto& warning : result.warnings) found.push_back(warning.code);
  return found;
}

using Codes = std::vector<std::string>;

TEST(Monitor, AHealthyDeviceRaisesNothing) {
  device::Telemetry t;
  EXPECT_EQ(codes(t, t), Codes{});
  t.pcie_generation = t.pcie_generation_max = 5;
  t.pcie_width = t.pcie_width_max = 16;
  t.ecc_uncorrected = 0;
  t.xids = {};
  t.power_limit_w = t.power_limit_default_w = 700;
  EXPECT_EQ(codes(t, t), Codes{});
}

TEST(Monitor, ALinkThatSleptBeforeIsNotDowntrained) {
  device::Telemetry before, after;
  before.pcie_generation_max = after.pcie_generation_max = 5;
  before.pcie_generation = 5;
  after.pcie_generation = 1;
  EXPECT_EQ(codes(before, after), Codes{});
  before.pcie_generation = 3;
  EXPECT_EQ(codes(before, after), Codes{"pcie_downtrained"});
  after.pcie_generation = after.pcie_generation_max;
  after.pcie_width = 8;
  after.pcie_width_max = 16;
  EXPECT_EQ(codes(before, after), Codes{"pcie_downtrained"});
}

TEST(Monitor, ErrorsOfTheMemoryAndOfTheDriverAreTold) {
  device::Telemetry before, after;
  before.ecc_uncorrected = 0;
  after.ecc_uncorrected = 2;
  EXPECT_EQ(codes(before, after), Codes{"ecc_errors"});
  EXPECT_EQ(codes(after, after), Codes{"ecc_errors"}) << "it had them before";

  before = after = {};
  after.xids = {94};
  EXPECT_EQ(codes(before, after), Codes{}) << "nobody knows whether they are new";
  before.xids = {31};
  EXPECT_EQ(codes(before, before), Codes{}) << "of an earlier case";
  after.xids = {31, 79, 94};
  CaseResult result;
  warn_about_state(result, before, after);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(result.warnings[0].code, "xid_errors");
  EXPECT_NE(result.warnings[0].message.find("Xid 79, 94 "), std::string::npos) << result.warnings[0].message;
}

TEST(Monitor, OtherProcessesAndALowLimitAreTold) {
  device::Telemetry before, after;
  before.foreign_processes = {7};
  after.foreign_processes = {7, 8};
  after.power_limit_w = 500;
  after.power_limit_default_w = 700;
  EXPECT_EQ(codes(before, after), (Codes{"foreign_processes", "power_limited"}));
}

TEST(Monitor, WhatTheDriverDoesNotSayIsNoted) {
  const auto note = [](const device::Telemetry& state) {
    CaseResult result;
    warn_about_state(result, state, state);
    return result.notes["device_state"];
  };
  device::Telemetry state;
  EXPECT_EQ(note(state), "") << "no source was asked";
  state.source = "nvml";
  EXPECT_EQ(note(state), "the driver does not report whether others used the device, or whether it throttled");
  state.throttle.emplace();
  EXPECT_EQ(note(state), "the driver does not report whether others used the device");
  state.foreign_processes.emplace();
  EXPECT_EQ(note(state), "");
}

TEST(Monitor, HeatInvalidatesSamplesAndAPowerCapDoesNot) {
  for (const char* reason : {"hw_thermal_slowdown", "sw_thermal_slowdown", "hw_slowdown", "hw_power_brake_slowdown"})
    EXPECT_TRUE(invalidates_samples(reason)) << reason;
  for (const char* reason : {"sw_power_cap", "applications_clocks_setting", "display_clock_setting", "gpu_idle"})
    EXPECT_FALSE(invalidates_samples(reason)) << reason;
}

}  // namespace
}  // namespace isthmus::harness
