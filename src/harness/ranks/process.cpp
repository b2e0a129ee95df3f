#include "harness/ranks/process.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/ranks/interrupt.hpp"

namespace isthmus::harness {

namespace {

/// Returns pointers to the words in the form that execve() and similar functions need.
std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> own_arguments() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(stream, word, '\0');) words.push_back(word);
  return words;
}

std::vector<std::string> environment_with(const std::string& variable, const std::string& value) {
  std::vector<std::string> words{variable + "=" + value};
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::string_view word = *each; !word.starts_with(variable + "=")) words.emplace_back(word);
  }
  return words;
}

struct FileActions {
  posix_spawn_file_actions_t handle{};
  FileActions() { posix_spawn_file_actions_init(&handle); }
  ~FileActions() { posix_spawn_file_actions_destroy(&handle); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
};

}  // namespace

pid_t start_again(const std::string& variable, const std::string& value, std::optional<int> report) {
  // If a shell or a daemon left SIGCHLD ignored, the kernel does not keep the exit code of a child that ends early.
  if (struct sigaction child{}; sigaction(SIGCHLD, nullptr, &child) == 0 && child.sa_handler == SIG_IGN)
    static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
  auto arguments = own_arguments(), environment = environment_with(variable, value);
  FileActions actions;
  if (report) posix_spawn_file_actions_adddup2(&actions.handle, *report, kReportDescriptor);
  pid_t process = 0;
  // posix_spawn() is used rather than fork(), because this process may have threads, and gigabytes of page tables to
  // copy.
  const int failure = posix_spawn(&process, "/proc/self/exe", &actions.handle, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
  if (failure != 0)
    throw std::runtime_error(
        fmt::format("this program could not start itself again ({}); check the limit on processes (ulimit -u)",
                    std::strerror(failure)));
  return process;
}

namespace {

/// Scope in which signals that end a wait are delivered only in suspend(), so that none arrives between a check and the
/// following wait.
class WakingSignals {
 public:
  WakingSignals() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&blocked, signal);
    pthread_sigmask(SIG_BLOCK, &blocked, &mask_);
    struct sigaction wake{};
    wake.sa_handler = [](int) {};  // SIGCHLD is ignored by default and would not end the wait
    sigemptyset(&wake.sa_mask);
    sigaction(SIGCHLD, &wake, &child_);
  }
  ~WakingSignals() {
    sigaction(SIGCHLD, &child_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  WakingSignals(const WakingSignals&) = delete;
  WakingSignals& operator=(const WakingSignals&) = delete;

  /// Waits for a signal, but at most one second, because another thread may have received the signal.
  void suspend() const {
    constexpr timespec limit{1, 0};
    ppoll(nullptr, 0, &limit, &mask_);
  }

 private:
  sigset_t mask_{};
  struct sigaction child_{};
};

}  // namespace

int wait_for(pid_t process, bool pass_interrupts) {
  const WakingSignals signals;
  int status = 0;
  bool passed_on = false;
  for (;;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process) return status;
    if (ended < 0 && errno != EINTR)
      throw std::runtime_error(
          fmt::format("the exit status of process {} is unknown ({}), so its results do not count; run it again",
                      process, std::strerror(errno)));
    if (pass_interrupts && interrupted() && !std::exchange(passed_on, true)) kill(process, SIGTERM);
    signals.suspend();
  }
}

}  // namespace isthmus::harness
