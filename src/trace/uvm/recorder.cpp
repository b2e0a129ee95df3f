#include "trace/uvm/recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace isthmus::trace::uvm {

namespace {

TraceFacts with_driver(TraceFacts facts, System& system) {
  facts["driver"] = system.driver_version();
  return facts;
}

/// Reserves PREFIX.uvm, or PREFIX-2.uvm, … if that file exists: it may be of an earlier run, of this process before
/// exec, or of a process with the same ID on another node.
std::string reserved(const std::string& prefix) {
  for (int number = 1;; ++number) {
    auto path = prefix + (number == 1 ? "" : "-" + std::to_string(number)) + ".uvm";
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) close(file);
    if (file >= 0 || errno != EEXIST) return path;
  }
}

}  // namespace

Recorder::Recorder(System& system, const std::string& prefix, TraceFacts facts, const QueueOptions& options)
    : queue_(system, options), file_(reserved(prefix), with_driver(std::move(facts), system)) {}

void Recorder::step() {
  const auto came = queue_.drained();
  file_.append(came.entries, came.dropped, came.foreign_replays);
}

void Recorder::finish() {
  const auto came = queue_.take_entries();
  file_.append(came.entries, came.dropped, came.foreign_replays);
  file_.end();
}

}  // namespace isthmus::trace::uvm
