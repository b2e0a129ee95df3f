#pragma once

// A whole run into a file: what the preloaded library does, without being one.

#include <string>

#include "trace/uvm/queue.hpp"
#include "trace/uvm/trace_file.hpp"

namespace isthmus::trace::uvm {

class Recorder {
 public:
  /// Writes PREFIX.uvm, or PREFIX-2.uvm, … where that exists: no file is overwritten. Throws Unavailable, and
  /// std::runtime_error where the file cannot be written.
  Recorder(System& system, const std::string& prefix, TraceFacts facts, const QueueOptions& options = {});
  /// Writes what has come; to be called some times a second.
  void step();
  /// What the driver still holds, too, and the mark of an end.
  void finish();

 private:
  Queue queue_;
  TraceWriter file_;
};

}  // namespace isthmus::trace::uvm
