// The fences of the protocol, which only ThreadSanitizer and a GPU can miss: without one of them it reports a race, and
// none with all of them. Each program runs in a process of its own, which ends with 66 after a report.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "device/emulator/emulator.hpp"
#include "random_program.hpp"

#if defined(__SANITIZE_THREAD__)

namespace isthmus::paging {
namespace {

constexpr int kReported = 66, kClean = 0;

/// Few frames, and writers among the readers.
Machine machine_of(unsigned seed) {
  Machine machine;
  machine.options = {.page_bytes = 4096,
                     .frames = 5,
                     .eviction = static_cast<Eviction>(seed % 3),
                     .clean_ahead = seed % 2 == 0 ? 2u : 0u,
                     .deadline = 60};
  machine.blocks = 2;
  Program& p = machine.program;
  p.seed = seed;
  p.steps = 20;
  p.threads_of_block = 64;
  p.threads = machine.blocks * p.threads_of_block;
  machine.bytes = 3 * 4096 - 24;
  p.elements = machine.bytes / sizeof(Word);
  return machine;
}

/// How the program ends in a process of its own.
template <class Protocol>
int exit_code_of(unsigned seed) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    device::emulator::configure(device::emulator::parse("workers=4"));
    const std::string wrong = outcome<Protocol>(machine_of(seed));
    if (!wrong.empty()) _exit(2);
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(MemoryOrder, OfTheProtocolIsNeverReported) {
  for (unsigned seed = 1; seed <= 10; ++seed) ASSERT_EQ(exit_code_of<Sound>(seed), kClean) << "seed " << seed;
}

struct PublishesUnfenced : Sound {
  static constexpr bool publish_unfenced = true;
};
struct EntersUnfenced : Sound {
  static constexpr bool enter_unfenced = true;
};
struct LeavesUnfenced : Sound {
  static constexpr bool leave_unfenced = true;
};

template <class Bug>
class Unfenced : public testing::Test {};
using Bugs = testing::Types<PublishesUnfenced, EntersUnfenced, LeavesUnfenced>;
TYPED_TEST_SUITE(Unfenced, Bugs);

TYPED_TEST(Unfenced, IsReportedWithinTenRepeats) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    if (exit_code_of<TypeParam>(seed) == kReported) return;
  }
  FAIL() << "ten programs did not show it";
}

}  // namespace
}  // namespace isthmus::paging

#endif
