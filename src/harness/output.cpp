#include "harness/output.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "harness/plan/names.hpp"

namespace isthmus::harness {

namespace {

constexpr int kWaitMilliseconds = 1000;  // for a reader of a stream that does not block

int output_error = 0;  // errno of the first failure on stdout

void note_output_error() noexcept {
  if (output_error == 0) output_error = errno != 0 ? errno : EIO;
}

}  // namespace

void print_diagnostic(std::string_view text) noexcept {
  const int error = errno;
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd ready{STDERR_FILENO, POLLOUT, 0};
      if (poll(&ready, 1, kWaitMilliseconds) <= 0) break;
    } else if (written == 0 || errno != EINTR) {
      break;
    }
  }
  errno = error;
}

void say(std::string_view sentence) noexcept {
  try {
    print_diagnostic("isthmus-bench: " + printable(sentence) + "\n");
  } catch (const std::bad_alloc&) {
    print_diagnostic("isthmus-bench: ");
    print_diagnostic(sentence);
    print_diagnostic("\n");
  }
}

void print(std::string_view text) noexcept {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) note_output_error();
}

int flush_output() noexcept {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) note_output_error();
  return output_error;
}

void ignore_broken_pipes() noexcept {
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
}

std::string sentence_of(const std::exception& failure) {
  const auto* refused = dynamic_cast<const std::system_error*>(&failure);
  if (refused == nullptr || refused->code() != std::errc::resource_unavailable_try_again) return failure.what();
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return fmt::format(
      "another thread could not be started ({}): the limit of processes and threads {}; raise it (ulimit -u, or the "
      "job's pids limit), or end other processes",
      std::strerror(EAGAIN), limited ? fmt::format("of this user is {}", limit.rlim_cur) : "is reached");
}

}  // namespace isthmus::harness
