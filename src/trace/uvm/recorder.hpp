#pragma once

// Recorder of a whole run into a file; the preloaded library uses it, but it also works without preloading.

#include <string>

#include "trace/uvm/queue.hpp"
#include "trace/uvm/trace_file.hpp"

namespace isthmus::trace::uvm {

class Recorder {
 public:
  /// Starts writing PREFIX.uvm, or PREFIX-2.uvm, … if that exists, so that existing files are not overwritten. Throws
  /// Unavailable, or std::runtime_error if the file cannot be written.
  Recorder(System& system, const std::string& prefix, TraceFacts facts, const QueueOptions& options = {});
  /// Writes the entries so far; call it several times a second.
  void step();
  /// Writes the entries that the driver still buffers, and the end mark.
  void finish();

 private:
  Queue queue_;
  TraceWriter file_;
};

}  // namespace isthmus::trace::uvm
