#pragma once

// Output of the program. Nothing here throws or ends the process: if a stream is closed, full or broken, text is lost,
// but never a record.

#include <exception>
#include <string>
#include <string_view>

namespace isthmus::harness {

/// Writes "isthmus-bench: SENTENCE" as one line of stderr.
void say(std::string_view sentence) noexcept;

/// Writes text to stderr as it is, such as a progress line.
void print_diagnostic(std::string_view text) noexcept;

/// Writes text to stdout and waits for a slow reader. output_error() tells whether all of it arrived.
void print(std::string_view text) noexcept;

/// Returns 0, or the errno of the first print() that failed. Nothing is printed after that failure.
int output_error() noexcept;

/// Makes a write to a pipe without a reader fail like any other write, instead of ending the process.
void ignore_broken_pipes() noexcept;

/// Returns one sentence that describes a failure: its what(). If the system cannot start more threads, the sentence
/// names the limit that was hit and what to do.
std::string sentence_of(const std::exception& failure);

}  // namespace isthmus::harness
