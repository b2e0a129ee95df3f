#pragma once

// A run's events in a file: a head, and chunks that are written as they come, so that what was drained is kept however
// the process ends.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trace/uvm/events.hpp"

namespace isthmus::trace::uvm {

/// Facts of a run, by name: no name has '=' in it, and nothing a line's end.
using TraceFacts = std::map<std::string, std::string>;

class TraceWriter {
 public:
  /// Throws std::runtime_error where the file cannot be written, here and below.
  TraceWriter(const std::string& path, const TraceFacts& facts);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  void append(std::span<const Entry> entries, std::uint64_t dropped, std::uint64_t foreign_replays);
  /// Nothing follows: the process ended as it should.
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
  std::string problem;  ///< why there may be less than happened, a sentence; empty where all is here
};

/// Throws std::runtime_error for what is no such file; of one that is cut short or spoilt, what is whole is given.
Trace read_trace(const std::string& path);

}  // namespace isthmus::trace::uvm
