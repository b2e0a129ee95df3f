#pragma once

// The phase `file`: a case's input is read from a file, straight into the host's memory of its buffers.

#include <cstddef>
#include <memory>
#include <optional>

#include "harness/measure/passes/case_state.hpp"

namespace isthmus::harness {

/// What one reading took.
struct FileReading {
  double seconds = 0;
  std::size_t bytes = 0;           ///< of the file
  std::optional<double> resident;  ///< the share of it that was in the page cache before, where the kernel tells
};

class InputPhase {
 public:
  /// Whether the case has one: its input is written to a file first, or the user has named one.
  static bool is_in(const CaseState& state);
  /// Throws Skip (memory) where a file that is still to be written does not fit.
  static void check_room(const CaseState& state);

  /// Writes the file where none is named. It is kept for the cases with the same inputs that follow.
  explicit InputPhase(CaseState& state);
  bool reads(std::size_t buffer) const;
  /// Asks for a cold page cache, reads, and compares what was read with what the buffers' fills give.
  FileReading read();

 private:
  struct Scratch;
  void read_rows(std::size_t buffer, std::size_t offset) const;
  void read_by_user() const;
  double count_wrong() const;

  CaseState& s_;
  std::vector<std::size_t> buffers_;  ///< in the order of the file
  std::shared_ptr<const Scratch> scratch_;
};

}  // namespace isthmus::harness
