#pragma once

// Everything that the program prints. Nothing here throws or ends the process: a stream that is closed, full or broken
// loses text, never records.

#include <exception>
#include <string>
#include <string_view>

namespace isthmus::harness {

/// Writes "isthmus-bench: SENTENCE" as one line of stderr.
void say(std::string_view sentence) noexcept;

/// Writes text to stderr as it is, such as a progress line.
void print_diagnostic(std::string_view text) noexcept;

/// Writes text to stdout, and waits for a reader that is slow. output_error() tells whether all of it arrived.
void print(std::string_view text) noexcept;

/// 0, or the errno of the first print() that failed; nothing is printed after it.
int output_error() noexcept;

/// A write to a pipe that nobody reads becomes an error, as other failed writes are, instead of the end of the process.
void ignore_broken_pipes() noexcept;

/// Sentence about a failure: its what(). Where the system starts no more threads, it says which limit that is, and what
/// to do.
std::string sentence_of(const std::exception& failure);

}  // namespace isthmus::harness
