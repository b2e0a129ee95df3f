#include "harness/ranks/interrupt.hpp"

#include <sys/prctl.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace isthmus::harness {

namespace {

// Flag set by a signal handler and read by any thread.
std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

/// Signal and the time of its first arrival, in nanoseconds of the monotonic clock; 0 before it arrives.
struct Caught {
  int number;
  std::atomic<std::int64_t> first = 0;
};
Caught caught[] = {{SIGTERM}, {SIGINT}, {SIGHUP}};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// Nanoseconds within which signals count as one request: timeout(1) sends one to its child and one to the whole group.
constexpr std::int64_t kTogether = 500'000'000;

void on_signal(int number) {
  const int error = errno;
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  for (auto& each : caught) {
    if (each.number != number) continue;
    std::int64_t first = 0;
    if (!each.first.compare_exchange_strong(first, now) && now - first > kTogether) {
      std::signal(number, SIG_DFL);  // a second request has the signal's usual effect
      raise(number);
    }
  }
  requested = true;
  errno = error;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const auto& each : caught) {
    struct sigaction before{};
    // A signal that is ignored at the start stays ignored: nohup and a shell's & do that on purpose.
    if (sigaction(each.number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(each.number, &action, nullptr);
  }
}

void interrupt_with_parent() noexcept {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
}

bool interrupted() noexcept {
  return requested;
}
void request_interrupt() noexcept {
  requested = true;
}
void clear_interrupt() noexcept {
  for (auto& each : caught) each.first = 0;
  requested = false;
}

}  // namespace isthmus::harness
