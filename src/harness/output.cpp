#include "harness/output.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <system_error>

#include "harness/plan/names.hpp"

namespace isthmus::harness {

namespace {

constexpr int kWaitMilliseconds = 1000;  // longest wait for a slow reader of a non-blocking stream

int first_error = 0;  // errno of the first failure on stdout

/// Writes all of a text, and waits for the reader of a non-blocking stream: up to `patience_ms` for each part, without
/// limit if that is -1. Returns false on failure; errno then has the reason.
bool write_all(int descriptor, std::string_view text, int patience_ms) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd ready{descriptor, POLLOUT, 0};
      const int found = poll(&ready, 1, patience_ms);
      if (found == 0 || (found < 0 && errno != EINTR)) return false;
    } else if (written == 0 || errno != EINTR) {
      if (written == 0) errno = EIO;
      return false;
    }
  }
  return true;
}

}  // namespace

void print_diagnostic(std::string_view text) noexcept {
  const int error = errno;
  write_all(STDERR_FILENO, text, kWaitMilliseconds);
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
  if (first_error == 0 && !write_all(STDOUT_FILENO, text, -1)) first_error = errno;
}

int output_error() noexcept {
  return first_error;
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
      "another thread could not be started ({}): the limit on processes and threads {}; raise it (ulimit -u, or the "
      "job's pids limit), or end other processes",
      std::strerror(EAGAIN), limited ? fmt::format("of this user is {}", limit.rlim_cur) : "is reached");
}

}  // namespace isthmus::harness
