#include "harness/ranks/watchdog.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "harness/output.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/ranks/process.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

using workload::now;

namespace {

/// Environment variable with the process ID of the run to watch and its limit in seconds: "4711:120".
constexpr const char* kVariable = "ISTHMUS_WATCHDOG";

// First letters of messages. A message is such a letter, its text and a line end.
constexpr char kReady = 'r', kProgress = 'p', kLimit = 'l', kDoing = 'd', kKept = 'k';

constexpr double kToStart = 20;         // seconds within which a started process must answer, after loading the program
constexpr double kProgressEvery = 0.1;  // minimum seconds between messages, so that not every event sends a message
constexpr double kLook = 0.2;           // seconds between checks that the run exists
constexpr double kStopped = 2;          // seconds; a check that takes longer means that this process was stopped

void close_in_run(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

/// Waits for a killed process. How it ended does not matter.
void reap(pid_t process) noexcept {
  try {
    wait_for(process, false);
  } catch (const std::exception&) {  // the process no longer exists
  }
}

/// Returns whether, within `seconds`, something can be read or the other end has been closed.
bool is_readable(int descriptor, double seconds) {
  pollfd wanted{descriptor, POLLIN, 0};
  const int milliseconds = static_cast<int>(std::ceil(1e3 * std::clamp(seconds, 0.0, 1e6)));
  return poll(&wanted, 1, milliseconds) > 0;
}

/// Watching side, which runs in the process of the watchdog.
class Watch {
 public:
  Watch(int channel, pid_t run, double limit) : channel_(channel), run_(run), limit_(limit), since_(now()) {}

  int until_the_run_ends() {
    while (is_there()) {
      const double looked = now();
      if (is_readable(channel_, std::clamp(limit_ - (looked - since_), 0.0, kLook))) {
        if (!listen()) return EXIT_SUCCESS;
      } else if (now() - looked > kStopped) {
        since_ = now();  // this process was stopped, and the run probably with it
      } else if (now() - since_ >= limit_) {
        return end_it();
      }
    }
    return EXIT_SUCCESS;
  }

 private:
  /// Returns whether the run exists. When a process ends, its children get another parent.
  bool is_there() const { return getppid() == run_; }

  /// Reads messages. Returns false if the run has ended or no longer needs watching.
  bool listen() {
    char part[4096];
    const auto got = recv(channel_, part, sizeof part, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    text_.append(part, static_cast<std::size_t>(got));
    for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      if (end > 0) take(text_[0], text_.substr(1, end - 1));
      text_.erase(0, end + 1);
    }
    since_ = now();
    return true;
  }

  void take(char what, const std::string& text) {
    if (what == kLimit) limit_ = std::atof(text.c_str());
    if (what == kDoing) doing_ = text;
    if (what == kKept) kept_ = text;
  }

  int end_it() {
    const double grace = std::clamp(limit_ / 4, 1.0, 30.0);
    say(
        fmt::format("{} made no progress for {:g} s, so the run is ended (SIGTERM, and SIGKILL after {:g} s){}; check "
                    "that the GPU still answers (nvidia-smi) before anybody uses it",
                    doing_.empty() ? "the run" : doing_, limit_, grace, kept_.empty() ? "" : "; " + kept_));
    for (const int signal : {SIGTERM, SIGKILL}) {
      if (is_there()) kill(run_, signal);
      if (is_gone_within(grace)) return EXIT_SUCCESS;
    }
    say(fmt::format("process {} does not end on SIGKILL, because the driver blocks it; restart this host", run_));
    return EXIT_FAILURE;
  }

  bool is_gone_within(double seconds) const {
    for (const double since = now(); is_there() && now() - since < seconds;) poll(nullptr, 0, 20);
    return !is_there();
  }

  int channel_;
  pid_t run_;
  double limit_, since_;
  std::string text_, doing_, kept_;
};

}  // namespace

Watchdog::Watchdog(double limit) {
  const auto refuse = [](const std::string& why) {
    throw std::runtime_error(
        fmt::format("the process that ends a hanging run could not be started ({}), so nothing runs; check the limits "
                    "on processes and open files (ulimit -u, ulimit -n)",
                    why));
  };
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) refuse(std::strerror(errno));
  channel_ = ends[0];
  std::string why = "it did not answer";
  try {
    process_ = start_again(kVariable, fmt::format("{}:{}", getpid(), limit), ends[1]);
  } catch (const std::runtime_error& failure) {
    why = failure.what();
  }
  close(ends[1]);
  char answer = 0;
  if (process_ > 0 && is_readable(channel_, kToStart) && recv(channel_, &answer, 1, MSG_DONTWAIT) == 1 &&
      answer == kReady)
    return;
  close_in_run(channel_);
  if (process_ > 0) {
    kill(process_, SIGKILL);
    reap(process_);
  }
  refuse(why);
}

Watchdog::~Watchdog() {
  kill(process_, SIGKILL);  // the watchdog may be ending this run, or may be stopped
  close_in_run(channel_);
  reap(process_);
}

void Watchdog::tell(char what, std::string_view text) noexcept {
  try {
    std::string line = what + std::string(text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    // A stopped watchdog reads nothing. Losing a message is better than making the run wait for it.
    const auto sent = send(channel_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 || errno == EAGAIN || errno == EINTR || lost_.exchange(true)) return;
    request_interrupt();
  } catch (const std::bad_alloc&) {  // the next message will report progress
  }
}

void Watchdog::progress() noexcept {
  const std::lock_guard lock(mutex_);
  const double at = now();
  if (at - last_progress_ < kProgressEvery) return;
  last_progress_ = at;
  tell(kProgress, "");
}

void Watchdog::set_limit(double seconds) noexcept {
  const std::lock_guard lock(mutex_);
  tell(kLimit, std::to_string(seconds));
}

void Watchdog::doing(std::string_view what) noexcept {
  const std::lock_guard lock(mutex_);
  tell(kDoing, what);
}

void Watchdog::kept(std::string_view where) noexcept {
  const std::lock_guard lock(mutex_);
  tell(kKept, where);
}

std::optional<int> run_as_watchdog() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return std::nullopt;
  // Signals are ignored: a scheduler sends them to all processes of a job, and a terminal to its whole group, but the
  // run may hang nevertheless.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) static_cast<void>(std::signal(signal, SIG_IGN));
  const pid_t run = std::atoi(text);
  const char* limit = std::strchr(text, ':');
  if (limit == nullptr || run != getppid()) return EXIT_FAILURE;
  const char ready = kReady;
  if (send(kReportDescriptor, &ready, 1, MSG_NOSIGNAL) != 1) return EXIT_FAILURE;
  return Watch(kReportDescriptor, run, std::atof(limit + 1)).until_the_run_ends();
}

}  // namespace isthmus::harness
