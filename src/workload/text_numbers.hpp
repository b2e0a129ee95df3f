#pragma once

// Reader of numbers in a text file.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "workload/input_file.hpp"

namespace isthmus::workload {

/// Reader of a text file from beginning to end, block by block. Every error throws std::runtime_error with one
/// sentence, which names the file and the line.
class TextNumbers {
 public:
  /// Makes a reader; `wanted` tells users in messages which file to name instead: "name one with a number for each
  /// cell".
  TextNumbers(InputFile file, std::string wanted) : file_(std::move(file)), wanted_(std::move(wanted)) {}

  /// Returns the next word, up to a blank. It is valid until more is read; this also applies to line().
  std::string_view word();
  /// Returns the rest of the line.
  std::string_view line();
  float number(float least, float largest) { return number_of(word(), least, largest); }
  /// Returns the number in `text`, ignoring blanks around it.
  float number_of(std::string_view text, float least, float largest) const;
  /// Throws std::runtime_error unless only blanks follow.
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
  std::size_t at_ = 0;      // position in `text_`, which is a part of the file
  std::size_t offset_ = 0;  // end of `text_` in the file
  std::size_t line_ = 1;
  bool ended_ = false;  // `at_` is at the end of a line that line() has returned
};

}  // namespace isthmus::workload
