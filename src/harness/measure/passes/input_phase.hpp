#pragma once

// Phase `file`, which reads a case's input from a file, directly into the host memory of the buffers.

#include <cstddef>
#include <memory>
#include <optional>

#include "harness/measure/passes/case_state.hpp"

namespace isthmus::harness {

/// Result of reading the file once.
struct FileReading {
  double seconds = 0;
  std::size_t bytes = 0;           ///< size of the file
  std::optional<double> resident;  ///< share of the file in the page cache before reading, if the kernel reports it
};

class InputPhase {
 public:
  /// Returns whether the case has this phase, because its input is first written to a file or the user named a file.
  static bool is_in(const CaseState& state);
  /// Throws Skip (memory) if a file that is still to be written does not fit.
  static void check_room(const CaseState& state);

  /// Writes the file if the user named none. It is kept for the next cases with the same inputs.
  explicit InputPhase(CaseState& state);
  bool reads(std::size_t buffer) const;
  /// Requests a cold page cache, reads the file, and compares its contents with the data that the buffers' fills
  /// generate.
  FileReading read();

 private:
  struct Scratch;
  void read_rows(std::size_t buffer, std::size_t offset) const;
  void read_by_user() const;
  double count_wrong() const;

  CaseState& s_;
  std::vector<std::size_t> buffers_;  ///< indices of buffers in the order of the file
  std::shared_ptr<const Scratch> scratch_;
};

}  // namespace isthmus::harness
