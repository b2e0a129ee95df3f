#pragma once

// Fixtures for tests on emulated machines.

#include <gtest/gtest.h>

#include <string_view>

#include "device/api/device.hpp"
#include "device/api/injection.hpp"
#include "emulator/emulator.hpp"

namespace isthmus::device {

/// Fixture that resets the emulator before and after each test: default configuration, device 0 and no pending injected
/// failure.
class EmulatorTest : public testing::Test {
 protected:
  void SetUp() override { start_over(); }
  void TearDown() override { start_over(); }
  /// Changes the default configuration as the environment variable ISTHMUS_EMULATOR would.
  static void configure(std::string_view specification) { emulator::configure(emulator::parse(specification)); }

 private:
  static void start_over() {
    set_injection("");
    emulator::configure({});
    emulator::reset();
    select(0);
  }
};

/// Fixture that configures the machine described by the test's parameter, in the syntax of ISTHMUS_EMULATOR.
class OnEmulatedMachine : public EmulatorTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    configure(GetParam());
  }
};

}  // namespace isthmus::device
