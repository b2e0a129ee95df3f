#include "harness/interrupt.hpp"

#include <csignal>

namespace isthmus::harness {

namespace {

volatile std::sig_atomic_t requested = 0;

void on_signal(int) {
  requested = 1;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second signal has its usual effect
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() noexcept {
  return requested != 0;
}
void request_interrupt() noexcept {
  requested = 1;
}
void clear_interrupt() noexcept {
  requested = 0;
}

}  // namespace isthmus::harness
