#pragma once

// Runs programs in a separate process, so that the exit code shows whether ThreadSanitizer reported a race.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "emulator/emulator.hpp"
#include "random_program.hpp"

namespace isthmus::paging {

inline constexpr int kReported = 66, kWrong = 2, kClean = 0;

/// Returns a machine with few frames, on which some threads write pages while others read them.
inline Machine machine_of(unsigned seed) {
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

/// Runs the program in a separate process and returns its exit code.
template <class Protocol>
int exit_code_of(const Machine& machine) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    emulator::configure(emulator::parse("workers=4"));
    std::exit(outcome<Protocol>(machine).empty() ? kClean : kWrong);  // TSan changes this to kReported after a report
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace isthmus::paging
