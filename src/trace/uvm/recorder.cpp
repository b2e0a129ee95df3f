#include "trace/uvm/recorder.hpp"

#include <utility>

namespace isthmus::trace::uvm {

namespace {

TraceFacts with_driver(TraceFacts facts, System& system) {
  facts["driver"] = system.driver_version();
  return facts;
}

}  // namespace

Recorder::Recorder(System& system, const std::string& path, TraceFacts facts, const QueueOptions& options)
    : queue_(system, options), file_(path, with_driver(std::move(facts), system)) {}

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
