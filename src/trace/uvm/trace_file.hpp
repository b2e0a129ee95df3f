#pragma once

// File of a run's events: a head, and chunks that are written immediately, so that drained events are kept no matter
// how the process ends.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trace/uvm/events.hpp"

namespace isthmus::trace::uvm {

/// Facts of a run, keyed by name. Names contain no '='; neither names nor values contain line breaks.
using TraceFacts = std::map<std::string, std::string>;

class TraceWriter {
 public:
  /// Creates the file. This constructor and the members below throw std::runtime_error if the file cannot be written.
  TraceWriter(const std::string& path, const TraceFacts& facts);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  void append(std::span<const Entry> entries, std::uint64_t dropped, std::uint64_t foreign_replays);
  /// Marks the regular end of the process; must be the last call.
  void end();

 private:
  void write(const void* data, std::size_t bytes);
  std::string path_;
  int file_;
};

struct Trace {
  TraceFacts facts;
  std::vector<Event> events;
  std::uint64_t dropped = 0, foreign_replays = 0;
  std::string problem;  ///< sentence that says why events may be missing; empty if the trace is complete
};

/// Reads a trace. Throws std::runtime_error if the file is not a trace; for a truncated or damaged trace, returns the
/// complete part.
Trace read_trace(const std::string& path);

}  // namespace isthmus::trace::uvm
