// The emulator's report at exit. Each case runs in a separate process with its own memory and errors.

#include <cstdlib>

#include "fixture.hpp"

namespace emulator {
namespace {

__global__ void write_first(float* values) {
  values[0] = 1;
}

void write_to_freed(Stream& stream) {
  auto* freed = static_cast<float*>(malloc_device(1024));
  free_device(freed);
  launch(stream, EMULATOR_KERNEL(write_first), {.grid = 1, .block = 1}, freed);
}

void lose_an_error() {
  Stream stream;
  write_to_freed(stream);
}

class ExitReport : public EmulatorTest {
 protected:
  // A forked child prints no report, so each test starts a new process instead of forking.
  void SetUp() override {
    EmulatorTest::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(ExitReport, NamesMemoryThatWasNeverFreed) {
  const auto leak = [] {
    malloc_device(1000);
    malloc_pinned(24, {});
    free_device(malloc_device(8));
    std::exit(0);
  };
  EXPECT_EXIT(leak(), testing::ExitedWithCode(1),
              "2 allocations were never freed, 1024 bytes in all: malloc_device #1 .1000 bytes., malloc_pinned #2 .24");
}

TEST_F(ExitReport, NamesMemoryWithoutAnAddress) {
  const auto leak = [] {
    create_memory(memory_granularity());
    std::exit(0);
  };
  EXPECT_EXIT(leak(), testing::ExitedWithCode(1), "1 allocation was never freed, .*: create_memory #1");
}

TEST_F(ExitReport, HasTheErrorOfAStreamThatWasDestroyedWithoutAWait) {
  const auto lose = [] {
    lose_an_error();
    std::exit(0);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(1), "an error was not reported .kernel 'write_first' was stopped");
}

TEST_F(ExitReport, HasTheErrorOfTheSecondOfTwoStreams) {
  const auto lose = [] {
    Stream first, second;
    write_to_freed(first);
    write_to_freed(second);
    EXPECT_NE(error_of([] { synchronize(); }), "");
    std::exit(0);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(1), "an error was not reported");
}

TEST_F(ExitReport, KeepsAnotherExitCode) {
  const auto fail = [] {
    lose_an_error();
    std::exit(7);
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(7), "an error was not reported");
}

TEST_F(ExitReport, SaysNothingOfWhatWasFreedAndThrown) {
  const auto behave = [] {
    Stream stream;
    write_to_freed(stream);
    EXPECT_NE(error_of([&] { stream.synchronize(); }), "");
    free_pooled(malloc_pooled(64, stream), stream);
    std::exit(0);
  };
  EXPECT_EXIT(behave(), testing::ExitedWithCode(0), "^$");
}

TEST_F(ExitReport, CanBeTurnedOff) {
  const auto leak = [] {
    configure("exit_report=0");
    malloc_device(1000);
    std::exit(0);
  };
  EXPECT_EXIT(leak(), testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace emulator
