#include "workload/fresh_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "harness/output.hpp"
#include "harness/ranks/process.hpp"
#include "workload/registration.hpp"

namespace isthmus::workload {

using namespace harness;

namespace {

/// Environment variable with the name of the work and its argument: "driver/context:0".
constexpr const char* kVariable = "ISTHMUS_FRESH_PROCESS";

// First words of a report. A report is one line: such a word, followed by a sentence, or by the number of values and
// the values.
constexpr std::string_view kDone = "done", kUnsupported = "unsupported", kFailed = "failed";

std::map<std::string, FreshProcess::Body>& bodies() {
  static std::map<std::string, FreshProcess::Body> registered;
  return registered;
}

std::string report_of(const std::string& name, int argument) {
  const auto body = bodies().find(name);
  if (body == bodies().end()) return fmt::format("{} no work is registered as '{}'", kFailed, name);
  try {
    const auto values = body->second(argument);
    return fmt::format("{} {} {}", kDone, values.size(), fmt::join(values, " "));
  } catch (const device::Error& error) {
    const bool unsupported = error.kind() == device::ErrorKind::unsupported;
    return fmt::format("{} {}", unsupported ? kUnsupported : kFailed, error.what());
  } catch (const std::bad_alloc&) {
    return fmt::format("{} the host has no memory left for it; choose a smaller size", kFailed);
  } catch (const std::exception& error) {
    return fmt::format("{} {}", kFailed, sentence_of(error));
  }
}

/// One end of a pipe.
using End = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
End open_end(int descriptor, const char* mode) {
  return {fdopen(descriptor, mode), std::fclose};
}

std::string read_all(std::FILE* from) {
  std::string text;
  char part[512];
  for (;;) {
    const auto got = read(fileno(from), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
}

/// Returns the values of a complete report; nullopt if it is incomplete.
std::optional<std::vector<double>> values_of(const std::string& report) {
  std::istringstream words(report);
  std::size_t count = 0;
  if (!(words >> count)) return std::nullopt;
  std::vector<double> values;
  for (std::string word; words >> word;) {
    char* end = nullptr;
    values.push_back(std::strtod(word.c_str(), &end));  // reads nan and inf as well
    if (*end != '\0') return std::nullopt;
  }
  return values.size() == count ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace

FreshProcess::FreshProcess(std::string name, Body body) : name_(std::move(name)) {
  bodies().emplace(name_, body);
}

std::vector<double> FreshProcess::run(int argument) const {
  if (std::getenv(kVariable) != nullptr) throw std::logic_error("a fresh process cannot start another");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(
        fmt::format("a pipe to a fresh process could not be created ({}); check the limit on open files (ulimit -n)",
                    std::strerror(errno)));
  const auto from = open_end(ends[0], "r");
  auto to = open_end(ends[1], "w");
  const pid_t process = start_again(kVariable, fmt::format("{}:{}", name_, argument), ends[1]);
  to.reset();  // otherwise reading would never end
  const std::string report = read_all(from.get());
  const int status = wait_for(process, false);
  if (WIFSIGNALED(status))
    throw std::runtime_error(
        fmt::format("a fresh process was ended by signal {}; run the case again", WTERMSIG(status)));

  const auto space = report.find(' ');
  const auto word = report.substr(0, space), rest = space == std::string::npos ? "" : report.substr(space + 1);
  if (word == kUnsupported) throw Skip(rest);
  if (word == kFailed) throw std::runtime_error("in a fresh process: " + rest);
  if (word != kDone)
    throw std::runtime_error(fmt::format(
        "a fresh process ended with exit code {} and without a report; run the case again", WEXITSTATUS(status)));
  const auto values = values_of(rest);
  if (!values || status != 0)
    throw std::runtime_error(fmt::format(
        "a fresh process ended with exit code {} and an incomplete report; run the case again", WEXITSTATUS(status)));
  return *values;
}

std::optional<int> run_as_fresh_process() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return std::nullopt;
  // This process ignores the signals: its parent waits for it, and ends after the current sample, which this process is
  // measuring. If the parent is killed, this process is killed as well.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) static_cast<void>(std::signal(signal, SIG_IGN));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string role = text;
  const auto colon = role.rfind(':');
  const auto name = role.substr(0, colon);
  const int argument = colon == std::string::npos ? 0 : std::atoi(role.c_str() + colon + 1);
  const auto report = report_of(name, argument);
  auto to = open_end(kReportDescriptor, "w");
  const bool written = to && std::fputs(report.c_str(), to.get()) >= 0 && std::fclose(to.release()) == 0;
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace isthmus::workload
