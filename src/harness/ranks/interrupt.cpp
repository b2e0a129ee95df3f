#include "harness/ranks/interrupt.hpp"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace isthmus::harness {

namespace {

// Set by a handler and read by any thread.
std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  requested = true;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second signal has its usual effect
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGTERM, SIGINT}) {
    struct sigaction before{};
    // Whoever started this program with a signal ignored, as nohup and a shell's & do, meant it.
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(number, &action, nullptr);
  }
}

bool interrupted() noexcept {
  return requested;
}
void request_interrupt() noexcept {
  requested = true;
}
void clear_interrupt() noexcept {
  requested = false;
}

}  // namespace isthmus::harness
