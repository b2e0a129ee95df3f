#pragma once

// Numbers in a text file.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "workload/input_file.hpp"

namespace isthmus::workload {

/// Reads a text from its beginning to its end, a block at a time. Whatever is wrong throws std::runtime_error: one
/// sentence, with the file and the line.
class TextNumbers {
 public:
  /// `wanted` says in messages what to name instead: "name one with a number for each cell".
  TextNumbers(InputFile file, std::string wanted) : file_(std::move(file)), wanted_(std::move(wanted)) {}

  /// What stands between the next blanks. Lasts until more is read, as a line does.
  std::string_view word();
  /// The rest of the line.
  std::string_view line();
  float number(float least, float largest) { return number_of(word(), least, largest); }
  /// What `text` says, blanks around it apart.
  float number_of(std::string_view text, float least, float largest) const;
  /// Throws unless nothing but blanks follows.
  void end();
  [[noreturn]] void fail(const std::string& what) const;

 private:
  bool more();
  void begin();
  void skip_blanks();
  template <class Ends>
  std::string_view until(Ends ends);

  InputFile file_;
  std::string wanted_, text_;
  std::size_t at_ = 0;      // in `text_`, which is a part of the file …
  std::size_t offset_ = 0;  // … that ends here
  std::size_t line_ = 1;
  bool ended_ = false;  // at_ is at the end of a line that was given
};

}  // namespace isthmus::workload
