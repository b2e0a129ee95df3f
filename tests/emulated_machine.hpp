#pragma once

// Fixtures of tests on emulated machines.

#include <gtest/gtest.h>

#include <string_view>

#include "device/api/device.hpp"
#include "device/api/injection.hpp"
#include "emulator/emulator.hpp"

namespace isthmus::device {

/// Each test starts with the default configuration, device 0 and no fault pending, whatever the last one left.
class EmulatorTest : public testing::Test {
 protected:
  void SetUp() override { start_over(); }
  void TearDown() override { start_over(); }
  /// Defaults changed as ISTHMUS_EMULATOR would.
  static void configure(std::string_view specification) { emulator::configure(emulator::parse(specification)); }

 private:
  static void start_over() {
    set_injection("");
    emulator::configure({});
    emulator::reset();
    select(0);
  }
};

/// The same, on the machine that the test's parameter describes as ISTHMUS_EMULATOR would.
class OnEmulatedMachine : public EmulatorTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    configure(GetParam());
  }
};

}  // namespace isthmus::device
